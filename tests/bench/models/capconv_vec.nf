# Capsule convolution with vector capsules: M convolutions of one picture. The picture is a parameter, so that a step makes its gradient too.
let B = 1, C = 64, H = 28, W = 28, K = 256, M = 8, S = 2
param in0[B, C, H, W] = normal(0, 1)
out = capsule_conv_vector(in0, K, M, 3, stride=S, pad=1)
loss L = mean[b, n, k, p, q] out[b, n, k, p, q]^2
train L { steps = 1000; optimizer = sgd(lr=1e-4); mode = dynamic; device = auto; seed = 1 }
