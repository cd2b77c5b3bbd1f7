# Convolution 3x3, stride 2, padding 2, dilation 2.
input x[1, 3, 8, 8] = zeros()
input w[4, 3, 3, 3] = zeros()
input dout[1, 4, 4, 4] = zeros()
out[n,k,p: 4,q: 4] = sum[c,r,s] (x[n, c, 2*p + 2*r - 2, 2*q + 2*s - 2] else 0) * w[k,c,r,s]
dx = grad(out, x, dout)
dw = grad(out, w, dout)
