input X[9]
Y[i: 3] = X[i / 2]
# ---- diagnostics
[non-affine-index] real_division_index.nf:2:15: error: `/` divides real numbers: an index divides with `//`
  Y[i: 3] = X[i / 2]
                ^
help: write `//`
fix: write `//`: `/` becomes `//`
