input X[3]
Y[i] : i32 = X[i] * 2
# ---- diagnostics
[type-mismatch] real_as_integer.nf:2:14: error: a real value can't be stored as i32
  Y[i] : i32 = X[i] * 2
               ^~~~~~~~
help: convert it: `i32(X[i] * 2)`
fix: convert it: `X[i] * 2` becomes `i32(X[i] * 2)`
