# Batched matrix product.
input a[3, 4, 5] = zeros()
input b[3, 5, 2] = zeros()
input dout[3, 4, 2] = zeros()
out[n,i,j] = sum[k] a[n,i,k] * b[n,k,j]
da = grad(out, a, dout)
db = grad(out, b, dout)
