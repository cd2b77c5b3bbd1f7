input X[9]
Y[i: 3] = X[1.5]
# ---- diagnostics
[non-integer-index] real_index.nf:2:13: error: an index is an integer, this is 1.5
  Y[i: 3] = X[1.5]
              ^~~
