input X[3]
A[i] = X[i] + B[i]
B[i] = A[i] * 2
# ---- diagnostics
[cyclic-use] cyclic_use.nf:2:15: error: `B` and what is defined here need each other
  A[i] = X[i] + B[i]
                ^
cyclic_use.nf:3:1: note: `B` is defined here
  B[i] = A[i] * 2
  ^
