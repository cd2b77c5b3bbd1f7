# CapsuleNet (Sabour et al. 2017) without its decoder: convolution, capsule convolution, votes, three rounds of routing, margin loss.
let B = 16, H = 28, K = 256, R = 9, Q = 9, A = 32, D = 8, N = 10, E = 16
let G = (H - R - Q + 1) // 2 + 1
input in0[B, 1, H, H] = normal(0, 1)
target[b: B] = b % N
stem = conv2d(in0, K, R, bias=1)
F = relu(stem)
param pw[D, A, K, Q, Q] = normal(0, 0.02)
param pb[D, A] = zeros()
param W[A*G*G, N, D, E] = normal(0, 0.05)
P[b, d, t, p: G, q: G] = (sum[c, r, s] F[b, c, 2*p + r, 2*q + s] * pw[d, t, c, r, s]) + pb[d, t]
Poses[b, i: A*G*G, d: D] = P[b, d, i // (G*G), i // G % G, i % G]
U = squash(Poses)
votes[b, i, n, e] = sum[d] U[b, i, d] * W[i, n, d, e]
out = routing(votes)
len = lengths(out)
loss L = margin_loss(len, target)
train L { steps = 1000; optimizer = sgd(lr=1e-4); mode = dynamic; device = auto; seed = 1 }
