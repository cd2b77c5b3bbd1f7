input X[4, 3] = 1
Z[b, n] = where(X[b, n] > 0, X[b, n], 0)
V[b, n] = torch.where(X[b, n] > 0, X[b, n], 0)
# ---- diagnostics
[expected] where_of_numpy.nf:2:11: error: expected an expression, found `where`
  Z[b, n] = where(X[b, n] > 0, X[b, n], 0)
            ^~~~~
note: one of two values is chosen with `select(condition, a, b)`
[undefined-function] where_of_numpy.nf:3:11: error: there is no function `torch.where`
  V[b, n] = torch.where(X[b, n] > 0, X[b, n], 0)
            ^~~~~~~~~~~
note: one of two values is chosen with `select(condition, a, b)`
