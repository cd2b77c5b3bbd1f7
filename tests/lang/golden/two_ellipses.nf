input X[3, 4]
Y[..., ...] = X[...]
# ---- diagnostics
[two-ellipses] two_ellipses.nf:2:8: error: `...` may stand once in a pair of brackets
  Y[..., ...] = X[...]
         ^~~
