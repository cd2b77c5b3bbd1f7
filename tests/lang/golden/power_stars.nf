input X[3]
Y[i] = X[i]**2
# ---- diagnostics
[bad-operator] power_stars.nf:2:12: error: `**` is no operator: powers are written `^`
  Y[i] = X[i]**2
             ^~
help: write `^`
fix: write `^`: `**` becomes `^`
