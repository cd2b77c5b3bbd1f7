input X[3]
Y[i] = X[i] + Z[i]
# ---- diagnostics
[undefined-name] undefined_name.nf:2:15: error: `Z` is not defined
  Y[i] = X[i] + Z[i]
                ^
