# Matrix product with the second operand transposed.
input a[5, 7] = zeros()
input b[6, 7] = zeros()
input dout[5, 6] = zeros()
out[i,j] = sum[k] a[i,k] * b[j,k]
da = grad(out, a, dout)
db = grad(out, b, dout)
