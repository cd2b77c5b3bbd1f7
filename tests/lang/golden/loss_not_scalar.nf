input X[3]
loss L = X * X
# ---- diagnostics
[not-scalar] loss_not_scalar.nf:2:6: error: `L` must be one number, it is f32 [3]
  loss L = X * X
       ^
note: reduce over its indices, as in `mean[...] X[...]`
