input X[4]
Y[i: 2 - 4] = X[i]
# ---- diagnostics
[negative-extent] negative_extent.nf:2:6: error: the extent of index `i` is -2: extents are at least 1
  Y[i: 2 - 4] = X[i]
       ^~~~~
