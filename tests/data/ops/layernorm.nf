# Layer normalisation over the last axis.
input x[3, 8] = zeros()
input w[8] = zeros()
input b[8] = zeros()
input dout[3, 8] = zeros()
M[i] = mean[k] x[i,k]
V[i] = mean[k] (x[i,k] - M[i])^2
out[i,j] = (x[i,j] - M[i]) * rsqrt(V[i] + 1e-12) * w[j] + b[j]
dx = grad(out, x, dout)
dw = grad(out, w, dout)
db = grad(out, b, dout)
