# Channel shuffle (3 groups of 2) and ReLU.
input x[2, 6, 3, 3] = zeros()
input dout[2, 6, 3, 3] = zeros()
out[n,c: 6,h,v] = relu(x[n, 2*(c%3) + c//3, h, v])
dx = grad(out, x, dout)
