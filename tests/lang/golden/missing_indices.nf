input X[3, 4]
Y[i] = sum[k] X
# ---- diagnostics
[missing-indices] missing_indices.nf:2:15: error: `X` has rank 2: its indices are needed here, as in `X[i, j]`
  Y[i] = sum[k] X
                ^
