input N
input X[N]
# ---- diagnostics
[not-a-constant] tensor_extent.nf:2:9: error: the extent of `X` must be a number known while compiling
  input X[N]
          ^
