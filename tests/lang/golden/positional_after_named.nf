input X[1, 3, 9, 9]
Y = conv2d(X, K=8, 3)
# ---- diagnostics
[positional-after-named] positional_after_named.nf:2:20: error: a plain argument can't follow a named one
  Y = conv2d(X, K=8, 3)
                     ^
