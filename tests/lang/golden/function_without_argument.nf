input X[3]
Y[i] = X[i] * sigmoid
Z[i] = exp
# ---- diagnostics
[function-as-value] function_without_argument.nf:2:15: error: `sigmoid` is a function: call it, sigmoid(x)
  Y[i] = X[i] * sigmoid
                ^~~~~~~
[function-as-value] function_without_argument.nf:3:8: error: `exp` is a function: call it, exp(x)
  Z[i] = exp
         ^~~
