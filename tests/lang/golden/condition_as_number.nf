input X[3]
Y[i] = (X[i] > 0) * 2
# ---- diagnostics
[type-mismatch] condition_as_number.nf:2:8: error: a condition is no number to calculate with
  Y[i] = (X[i] > 0) * 2
         ^~~~~~~~~~
help: make it 1 or 0: `select((X[i] > 0), 1, 0)`
fix: make it 1 or 0: `(X[i] > 0)` becomes `select((X[i] > 0), 1, 0)`
