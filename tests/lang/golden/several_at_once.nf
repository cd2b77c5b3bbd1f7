input X[3]
A[i] = X[i] + P[i]
B[i] = X[i, 0]
let N = 0
C[i: N] = 1
D[i] = A[i] + B[i]
# ---- diagnostics
[undefined-name] several_at_once.nf:2:15: error: `P` is not defined
  A[i] = X[i] + P[i]
                ^
[rank-mismatch] several_at_once.nf:3:8: error: `X` has rank 1 and is read with 2 indices
  B[i] = X[i, 0]
         ^~~~~~~
note: `X` is f32 [3]
[zero-extent] several_at_once.nf:5:6: error: the extent of index `i` is 0: extents are at least 1
  C[i: N] = 1
       ^
