input X[3, 4]
Y[i] = X[i]
# ---- diagnostics
[rank-mismatch] rank_mismatch.nf:2:8: error: `X` has rank 2 and is read with 1 index
  Y[i] = X[i]
         ^~~~
note: `X` is f32 [3, 4]
