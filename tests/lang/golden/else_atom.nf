input X[3]
Y[i: 4] = X[i] else -1
# ---- diagnostics
[else-atom] else_atom.nf:2:21: error: `else` takes one number, name or parenthesis
  Y[i: 4] = X[i] else -1
                      ^
help: add parentheses: `(-1)`
fix: add parentheses: `-1` becomes `(-1)`
