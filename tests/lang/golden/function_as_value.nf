input X[3, 3]
Y = X + softmax
# ---- diagnostics
[function-as-value] function_as_value.nf:2:9: error: `softmax` is a function: call it, softmax(X[..., N]) -> Y
  Y = X + softmax
          ^~~~~~~
