# Depthwise convolution 3x3, stride 2, padding 1.
input x[2, 4, 7, 7] = zeros()
input w[4, 1, 3, 3] = zeros()
input dout[2, 4, 4, 4] = zeros()
out[n,k,p: 4,q: 4] = sum[r,s] (x[n, k, 2*p + r - 1, 2*q + s - 1] else 0) * w[k,0,r,s]
dx = grad(out, x, dout)
dw = grad(out, w, dout)
