input X[9]
input F[3]
Y[i] = X[F[i]]
# ---- diagnostics
[type-mismatch] float_tensor_index.nf:3:10: error: an index is an integer, this is f32
  Y[i] = X[F[i]]
           ^~~~
help: convert it: `i32(F[i])`
fix: convert it: `F[i]` becomes `i32(F[i])`
