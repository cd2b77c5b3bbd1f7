# Batch normalisation with the batch's statistics.
input x[3, 4, 3, 3] = zeros()
input w[4] = zeros()
input b[4] = zeros()
input dout[3, 4, 3, 3] = zeros()
M[c] = mean[n,h,v] x[n,c,h,v]
V[c] = mean[n,h,v] (x[n,c,h,v] - M[c])^2
out[n,c,h,v] = (x[n,c,h,v] - M[c]) * rsqrt(V[c] + 1e-5) * w[c] + b[c]
dx = grad(out, x, dout)
dw = grad(out, w, dout)
db = grad(out, b, dout)
