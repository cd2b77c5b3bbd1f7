# Softmax over the last axis.
input x[4, 9] = zeros()
input dout[4, 9] = zeros()
E[i,j] = exp(x[i,j] - max[k] x[i,k])
out[i,j] = E[i,j] / (sum[k] E[i,k])
dx = grad(out, x, dout)
