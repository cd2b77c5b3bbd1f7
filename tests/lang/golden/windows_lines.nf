input X[3]
Y[i] = X[i] +
  Z[i]
# ---- diagnostics
[undefined-name] windows_lines.nf:3:3: error: `Z` is not defined
    Z[i]
    ^
