input X[3]
Y[i] = select(X[i] > 0 and 1, 1, 0)
# ---- diagnostics
[type-mismatch] and_of_numbers.nf:2:28: error: `and` joins conditions, this is a number
  Y[i] = select(X[i] > 0 and 1, 1, 0)
                             ^
