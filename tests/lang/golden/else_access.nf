input X[3, 4, 2]
Y[n, t] = X[n, t + 1, 0] else X[n, 0, 1]
show Y
# ---- diagnostics
[else-atom] else_access.nf:2:31: error: `else` takes one number, name or parenthesis: an access needs parentheses there
  Y[n, t] = X[n, t + 1, 0] else X[n, 0, 1]
                                ^~~~~~~~~~
help: add parentheses: `(X[n, 0, 1])`
fix: add parentheses: `X[n, 0, 1]` becomes `(X[n, 0, 1])`
