input A[4] = 2
input t[4] : i32 = 1
T[i+1: 4] += A[i]
U[i-1: 5, t[i]: 3] += A[i]
V[i+1: 4] += select(i < 3, A[i], 0)
W[i//2: 2] += A[i]
# ---- diagnostics
[scatter-drops] scatter_drops.nf:3:3: warning: place `i+1` of `T`, axis 0, runs over 1..4, and it has 0..3: what falls outside is added nowhere
  T[i+1: 4] += A[i]
    ^~~
note: a `select` around the value says that it is meant
[scatter-drops] scatter_drops.nf:4:3: warning: place `i-1` of `U`, axis 0, runs over -1..2, and it has 0..4: what falls outside is added nowhere
  U[i-1: 5, t[i]: 3] += A[i]
    ^~~
note: a `select` around the value says that it is meant
