input X[9]
Y[i: 3, j: 3] = X[i // j]
# ---- diagnostics
[division-by-variable] division_by_variable.nf:2:24: error: an index is divided by a positive constant, `j` varies
  Y[i: 3, j: 3] = X[i // j]
                         ^
