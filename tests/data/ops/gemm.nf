# Matrix product.
input a[5, 7] = zeros()
input b[7, 6] = zeros()
input dout[5, 6] = zeros()
out[i,j] = sum[k] a[i,k] * b[k,j]
da = grad(out, a, dout)
db = grad(out, b, dout)
