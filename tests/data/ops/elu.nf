# ELU.
input x[3, 7] = zeros()
input dout[3, 7] = zeros()
out[i,j] = select(x[i,j] > 0, x[i,j], exp(x[i,j]) - 1)
dx = grad(out, x, dout)
