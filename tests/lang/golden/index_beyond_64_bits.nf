input t[4] : i32 = 0
input A[9] = 1
Y[i] = A[t[i]*4611686018427387904] else 0
Z[i] = A[t[i]*t[i]*t[i]] else 0
Q[i] = A[t[i] + 90071992547409930] else 0
W[i] = A[i32(t[i]*t[i]*t[i])] else 0
# ---- diagnostics
[index-overflow] index_beyond_64_bits.nf:3:15: error: `4611686018427387904` is too large beside an integer tensor
  Y[i] = A[t[i]*4611686018427387904] else 0
                ^~~~~~~~~~~~~~~~~~~
note: in an index that reads data, numbers go up to 9007199254740992
[index-overflow] index_beyond_64_bits.nf:4:10: error: `t[i]*t[i]*t[i]` does not fit 64 bits for every i32 that it may read
  Z[i] = A[t[i]*t[i]*t[i]] else 0
           ^~~~~~~~~~~~~~
note: bound what is read, as in `t[i] % 1000`; `i32(...)` around a part keeps that part to 32 bits
[index-overflow] index_beyond_64_bits.nf:5:17: error: `90071992547409930` is too large beside an integer tensor
  Q[i] = A[t[i] + 90071992547409930] else 0
                  ^~~~~~~~~~~~~~~~~
note: in an index that reads data, numbers go up to 9007199254740992
