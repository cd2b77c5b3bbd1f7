input X[3]
Y[i] = X[i])
# ---- diagnostics
[unopened-bracket] unopened_bracket.nf:2:12: error: `)` closes nothing
  Y[i] = X[i])
             ^
