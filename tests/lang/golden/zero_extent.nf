let N = 3
input X[N - 3]
# ---- diagnostics
[zero-extent] zero_extent.nf:2:9: error: the extent of `X` is 0: extents are at least 1
  input X[N - 3]
          ^~~~~
