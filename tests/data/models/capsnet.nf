# CapsuleNet: convolution, capsule convolution, votes, three rounds of routing, margin loss.
input in0[3, 1, 12, 12] = zeros()
input target[3] : i32 = zeros()
stem = conv2d(in0, 4, 5, bias=1)
R = relu(stem)
param pw[4, 2, 4, 3, 3] = zeros()
param pb[4, 2] = zeros()
param W[18, 3, 4, 5] = zeros()
P[b,d,t,p: 3,q: 3] = (sum[c,r,s] R[b, c, 2*p + r, 2*q + s] * pw[d,t,c,r,s]) + pb[d,t]
S[b,i: 18,d: 4] = P[b, d, i//9, (i//3)%3, i%3]
U = squash(S)
votes[b,i,n,e] = sum[d] U[b,i,d] * W[i,n,d,e]
out = routing(votes)
len = lengths(out)
loss L = margin_loss(len, target)
