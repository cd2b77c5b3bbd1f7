# The paper's figure 4: pad, dilated convolution, depth to space, concatenation with the input.
input x[2, 3, 8, 8] = zeros()
input w[8, 3, 3, 3] = zeros()
input dout[2, 5, 8, 8] = zeros()
P[n,c,h: 12,v: 12] = x[n, c, h - 2, v - 2] else 0
C[n,k,p: 4,q: 4] = sum[c,r,s] P[n, c, 2*p + 2*r, 2*q + 2*s] * w[k,c,r,s]
D[n,c: 2,h: 8,v: 8] = C[n, 4*c + 2*(h%2) + v%2, h//2, v//2]
out[n,c: 5,h,v] = select(c < 2, D[n,c,h,v], x[n, c - 2, h, v])
dx = grad(out, x, dout)
dw = grad(out, w, dout)
