input X[9]
Y[i: 3, j: 3] = X[i*j]
# ---- diagnostics
[non-affine-index] non_affine_index.nf:2:19: error: this index is not affine: indices are added, and multiplied or divided by constants only
  Y[i: 3, j: 3] = X[i*j]
                    ^~~
note: allowed are `+ - *` by constants, `//` and `%` by positive constants, and an integer tensor as an index
