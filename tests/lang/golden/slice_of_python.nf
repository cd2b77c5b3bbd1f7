input X[8, 4]
Y = X[0:3, _]
# ---- diagnostics
[expected] slice_of_python.nf:2:8: error: expected `]` or a comma, found `:`
  Y = X[0:3, _]
         ^
note: a part of an axis is read with an index, `Y[i: 3] = X[i + 2]`; a whole axis is `_`
