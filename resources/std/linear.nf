# SPDX-License-Identifier: Apache-2.0
# Layers that are one contraction. A `param` inside a function is made anew by each call and is named by path: H = linear(X, 64)
# makes H.W and H.bias. `...` stands for all remaining indices, so the layer works on [batch, features] and on
# [batch, time, features] alike.

# Y = X W^T + bias over the last axis. The bounds of the uniform draw are those of PyTorch's Linear: 1/sqrt(inputs).
def linear(X[..., I], O) -> Y {
  param W[O, I]  = uniform(-1 / sqrt(I), 1 / sqrt(I))
  param bias[O]  = uniform(-1 / sqrt(I), 1 / sqrt(I))
  Y[..., o] = bias[o] + sum[i] X[..., i] * W[o, i]
}

# The same without a bias.
def project(X[..., I], O) -> Y {
  param W[O, I] = uniform(-1 / sqrt(I), 1 / sqrt(I))
  Y[..., o] = sum[i] X[..., i] * W[o, i]
}

# A learned offset for each channel of [batch, channel, ...].
def bias(X[N, C, ...]) -> Y {
  param offset[C] = zeros()
  Y[n, c, ...] = X[n, c, ...] + offset[c]
}

# One row of a table for each token. The index is data: its gradient adds into the rows that were read.
def embedding(tokens[...], V, D) -> Y {
  param E[V, D] = normal(0, 1)
  Y[..., d] = E[tokens[...], d]
}
