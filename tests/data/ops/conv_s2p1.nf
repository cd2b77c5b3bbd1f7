# Convolution 3x3, stride 2, zero padding 1.
input x[2, 3, 7, 6] = zeros()
input w[4, 3, 3, 3] = zeros()
input dout[2, 4, 4, 3] = zeros()
out[n,k,p: 4,q: 3] = sum[c,r,s] (x[n, c, 2*p + r - 1, 2*q + s - 1] else 0) * w[k,c,r,s]
dx = grad(out, x, dout)
dw = grad(out, w, dout)
