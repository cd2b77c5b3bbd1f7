# relu(x + y) * z
input x[3, 5] = zeros()
input y[3, 5] = zeros()
input z[3, 5] = zeros()
input dout[3, 5] = zeros()
out[i,j] = relu(x[i,j] + y[i,j]) * z[i,j]
dx = grad(out, x, dout)
dy = grad(out, y, dout)
dz = grad(out, z, dout)
