input X[3]
A[i] = X[i] + A[i]
# ---- diagnostics
[cyclic-use] cyclic_self.nf:2:15: error: `A` is used in its own definition
  A[i] = X[i] + A[i]
                ^
