input X[3, 4]
Y[i] = X[i, _]
# ---- diagnostics
[bad-slice] slice_in_body.nf:2:13: error: `_` makes a slice, and a slice stands where a whole tensor may: an argument, `show`, a statement without indices
  Y[i] = X[i, _]
              ^
note: write an index in its place
