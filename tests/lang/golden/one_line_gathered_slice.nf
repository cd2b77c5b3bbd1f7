input A[4] = 1
input M[4, 4] = 1
input t[4] : i32 = 0
def g(x[N]) = sum[i] x[i]
Y[i] = g(M[t[i], _])
# ---- diagnostics
[non-affine-index] one_line_gathered_slice.nf:5:12: error: a slice is taken at a number or a counter; gather with an index: `Y[i] = X[idx[i]]`
  Y[i] = g(M[t[i], _])
             ^~~~
