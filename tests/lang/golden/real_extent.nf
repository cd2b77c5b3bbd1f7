input X[2.5]
# ---- diagnostics
[not-an-integer] real_extent.nf:1:9: error: the extent of `X` must be an integer, this is 2.5
  input X[2.5]
          ^~~
