param W[3] = normal(0)
# ---- diagnostics
[wrong-arity] initializer_arity.nf:1:14: error: `normal` takes 2 arguments, here is 1
  param W[3] = normal(0)
               ^~~~~~~~~
