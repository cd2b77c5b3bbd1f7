input X[3, 4]
Y[i] = X[i, k]
# ---- diagnostics
[undefined-name] undefined_index.nf:2:13: error: `k` is not defined: it is no tensor, number or index of this statement
  Y[i] = X[i, k]
              ^
note: as an index it stands on the left, or in a reduction: `sum[k] ...`
