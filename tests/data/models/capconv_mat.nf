# Capsule convolution with matrix capsules (NeoFlow, section 2.3), matrices of 2x3 times 3x4.
input in0[3, 3, 7, 6, 2, 3] = zeros()
param weight[4, 3, 3, 3, 3, 4] = zeros()
out[b,k,p: 4,q: 3,i,j] = sum[c,r,s,m] (in0[b, c, 2*p + r - 1, 2*q + s - 1, i, m] else 0) * weight[k,c,r,s,m,j]
loss L = mean[b,k,p,q,i,j] out[b,k,p,q,i,j]^2
