# SCRNN (Mikolov et al. 2015), T steps, a readout of both last states, cross entropy.
let B = 16, T = 28, X = 28, H = 128, S = 40, N = 10
input in0[B, T, X] = normal(0, 1)
target[b: B] = b % N
param U[N, H] = uniform(-1 / sqrt(H), 1 / sqrt(H))
param V[N, S] = uniform(-1 / sqrt(H), 1 / sqrt(H))
h[b: B, n: H] = 0.0
s[b: B, m: S] = 0.0
for t in 0..T { h, s = scrnn(in0[_, t, _], h, s) }
out[b, k] = (sum[n] h[b, n] * U[k, n]) + sum[m] s[b, m] * V[k, m]
loss L = cross_entropy(out, target)
train L { steps = 1000; optimizer = sgd(lr=1e-4); mode = dynamic; device = auto; seed = 1 }
