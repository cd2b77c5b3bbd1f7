# Convolution 3x3, padding 1, two groups: output channels 0, 1 read inputs 0..2, channels 2, 3 read 3..5.
input x[1, 6, 5, 5] = zeros()
input w[4, 3, 3, 3] = zeros()
input dout[1, 4, 5, 5] = zeros()
out[n,k,p: 5,q: 5] = sum[c,r,s] (x[n, 3*(k//2) + c, p + r - 1, q + s - 1] else 0) * w[k,c,r,s]
dx = grad(out, x, dout)
dw = grad(out, w, dout)
