input X[3]
Y[i] = 2 X[i]
# ---- diagnostics
[expected] missing_operator.nf:2:10: error: expected the end of the statement, found `X`
  Y[i] = 2 X[i]
           ^
note: a product is written with `*`
