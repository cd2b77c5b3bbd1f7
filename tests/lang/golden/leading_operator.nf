input X[3]
Y[i] = X[i]
  + 1
# ---- diagnostics
[expected] leading_operator.nf:3:3: error: a statement can't start with `+`
    + 1
    ^
note: to go on with the line above, end that line with the operator
