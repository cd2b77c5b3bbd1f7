input X[3, 3]
Y[i, i] = X[i, i]
# ---- diagnostics
[duplicate-index] duplicate_index.nf:2:6: error: index `i` stands twice on the left
  Y[i, i] = X[i, i]
       ^
