input X[3, 4]
A, B = softmax(X)
# ---- diagnostics
[wrong-arity] wrong_arity_results.nf:2:8: error: `softmax` gives 1 result, here are 2 names
  A, B = softmax(X)
         ^~~~~~~~~~
note: softmax(X[..., N]) -> Y
