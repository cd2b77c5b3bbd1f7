input X[3, 4]
input t : i32
Y = softmax(X[_, t])
# ---- diagnostics
[non-affine-index] data_slice.nf:3:18: error: a slice is taken at a number or a counter; gather with an index: `Y[i] = X[idx[i]]`
  Y = softmax(X[_, t])
                   ^
