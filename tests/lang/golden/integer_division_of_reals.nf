input X[3]
Y[i] = X[i] // 2
# ---- diagnostics
[type-mismatch] integer_division_of_reals.nf:2:8: error: `//` takes integers
  Y[i] = X[i] // 2
         ^~~~~~~~~
note: `floor(a / b)` rounds a real quotient down
