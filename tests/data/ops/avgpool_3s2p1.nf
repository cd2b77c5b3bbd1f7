# Average pooling 3x3, stride 2, padding 1, zeros counted.
input x[1, 2, 7, 7] = zeros()
input dout[1, 2, 4, 4] = zeros()
out[n,c,p: 4,q: 4] = mean[r: 3,s: 3] (x[n, c, 2*p + r - 1, 2*q + s - 1] else 0)
dx = grad(out, x, dout)
