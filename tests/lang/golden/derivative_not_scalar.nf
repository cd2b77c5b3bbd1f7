input X[3]
Y[i] = X[i]^2
show d(Y)/d(X)
# ---- diagnostics
[not-scalar] derivative_not_scalar.nf:3:6: error: `d(Y)/d(X)` needs a scalar, `Y` is f32 [3]
  show d(Y)/d(X)
       ^~~~~~~~~
note: `grad(Y, X, seed)` takes any tensor and a seed of its shape
