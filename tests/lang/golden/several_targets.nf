input X[4, 2] = 1
a[i], b[i] = X[i, 0], X[i, 1]
c: f64, d = X, X
e, f = X, X where k = 3
show e
# ---- diagnostics
[several-targets] several_targets.nf:2:1: error: several tensors at once are named without indices: `h, c = lstm(...)`
  a[i], b[i] = X[i, 0], X[i, 1]
  ^~~~
[type-mismatch] several_targets.nf:3:1: error: a type belongs to the definition of one tensor
  c: f64, d = X, X
  ^
[several-targets] several_targets.nf:4:19: error: several tensors at once are named without `where`
  e, f = X, X where k = 3
                    ^
