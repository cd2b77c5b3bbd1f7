input X[3]
Y[i] = select(X[i], 1, 0)
# ---- diagnostics
[type-mismatch] number_as_condition.nf:2:15: error: `select` takes a condition first
  Y[i] = select(X[i], 1, 0)
                ^~~~
note: a number, or a comparison that is stored in a tensor, is compared: `B[i] != 0`
