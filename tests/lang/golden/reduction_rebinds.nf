input X[3, 3]
Y[i] = sum[i] X[i, i]
# ---- diagnostics
[duplicate-index] reduction_rebinds.nf:2:12: error: index `i` already runs here: the reduction would hide it
  Y[i] = sum[i] X[i, i]
             ^
reduction_rebinds.nf:2:3: note: it is named here
  Y[i] = sum[i] X[i, i]
    ^
