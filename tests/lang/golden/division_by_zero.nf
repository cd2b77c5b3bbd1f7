input X[9]
Y[i: 3] = X[i // 0]
# ---- diagnostics
[division-by-zero] division_by_zero.nf:2:18: error: `//` takes a positive divisor, this one is 0
  Y[i: 3] = X[i // 0]
                   ^
