input X[3]
Y[i + 1] = X[i]
# ---- diagnostics
[target-index] target_index.nf:2:3: error: the left side takes names of indices, not `i + 1`
  Y[i + 1] = X[i]
    ^~~~~
note: to write some elements only, select them on the right; to add at computed places use `+=`
