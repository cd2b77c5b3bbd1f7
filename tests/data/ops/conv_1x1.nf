# Convolution 1x1.
input x[2, 5, 4, 4] = zeros()
input w[6, 5, 1, 1] = zeros()
input dout[2, 6, 4, 4] = zeros()
out[n,k,p,q] = sum[c,r,s] x[n, c, p + r, q + s] * w[k,c,r,s]
dx = grad(out, x, dout)
dw = grad(out, w, dout)
