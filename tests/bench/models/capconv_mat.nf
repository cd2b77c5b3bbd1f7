# Capsule convolution with matrix capsules (NeoFlow, section 2.3), I x M times M x J. The picture is a parameter, so that a step makes
# its gradient too.
let B = 1, C = 64, H = 28, W = 28, K = 256, I = 2, M = 4, J = 4
param in0[B, C, H, W, I, M] = normal(0, 1)
param weight[K, C, 3, 3, M, J] = normal(0, 0.05)
out[b, k, p: (H - 1) // 2 + 1, q: (W - 1) // 2 + 1, i, j] =
  sum[c, r, s, m] (in0[b, c, 2*p + r - 1, 2*q + s - 1, i, m] else 0) * weight[k, c, r, s, m, j]
loss L = mean[b, k, p, q, i, j] out[b, k, p, q, i, j]^2
train L { steps = 1000; optimizer = sgd(lr=1e-4); mode = dynamic; device = auto; seed = 1 }
