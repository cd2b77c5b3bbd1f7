input X[3, 4]
Y = softmax(X[:, 1])
# ---- diagnostics
[bad-slice] slice_colon.nf:2:15: error: a whole axis is written `_`
  Y = softmax(X[:, 1])
                ^
help: write `_`
fix: write `_`: `:` becomes `_`
