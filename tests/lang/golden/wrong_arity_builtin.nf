input X[3]
Y[i] = exp(X[i], 2)
# ---- diagnostics
[wrong-arity] wrong_arity_builtin.nf:2:8: error: `exp` takes 1 argument, here are 2
  Y[i] = exp(X[i], 2)
         ^~~~~~~~~~~~
