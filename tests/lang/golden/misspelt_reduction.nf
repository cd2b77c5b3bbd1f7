input X[4, 5]
input W[5, 3]
Y[i, j] = summ[k] X[i, k]*W[k, j]
# ---- diagnostics
[expected] misspelt_reduction.nf:3:19: error: expected the end of the statement, found `X`
  Y[i, j] = summ[k] X[i, k]*W[k, j]
                    ^
help: write `sum`
fix: write `sum`: `summ` becomes `sum`
