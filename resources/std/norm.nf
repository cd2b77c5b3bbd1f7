# SPDX-License-Identifier: Apache-2.0
# Softmax and normalisations: reductions chained with elementwise operators, which fusion joins again.

# Over the last axis. Subtracting the greatest value keeps exp in range and changes nothing else, so no gradient flows
# through it.
def softmax(X[..., N]) -> Y {
  M[...] = max[k] X[..., k]
  E[..., k] = exp(X[..., k] - stop_gradient(M[...]))
  S[...] = sum[k] E[..., k]
  Y[..., k] = E[..., k] / S[...]
}

def log_softmax(X[..., N]) -> Y {
  M[...] = max[k] X[..., k]
  S[...] = sum[k] exp(X[..., k] - stop_gradient(M[...]))
  Y[..., k] = X[..., k] - stop_gradient(M[...]) - log(S[...])
}

# Each row to mean 0 and deviation 1, then a learned scale and offset.
def layer_norm(X[..., N]; eps = 1e-5) -> Y {
  require eps >= 0, "`eps` must be 0 or more"
  param gain[N]   = 1
  param offset[N] = zeros()
  M[...] = mean[k] X[..., k]
  V[...] = mean[k] (X[..., k] - M[...])^2
  Y[..., k] = (X[..., k] - M[...]) * rsqrt(V[...] + eps) * gain[k] + offset[k]
}

# Each channel over batch and space. `training` is a constant of each compiled program: while training the batch's own statistics
# are used and the running ones follow them; evaluation reads the running ones. A `state` keeps its value between steps, and
# `<-` writes it at the end of one. The running variance is the unbiased one.
def batch_norm(X[N, C, H, W]; momentum = 0.1, eps = 1e-5) -> Y {
  require eps >= 0, "`eps` must be 0 or more"
  require momentum >= 0 and momentum <= 1, "`momentum` must be from 0 to 1"
  param gain[C]   = 1
  param offset[C] = zeros()
  state running_mean[C] = zeros()
  state running_var[C]  = 1
  if training {
    M[c] = mean[n, h, w] X[n, c, h, w]
    V[c] = mean[n, h, w] (X[n, c, h, w] - M[c])^2
    running_mean[c] <- (1 - momentum) * running_mean[c] + momentum * M[c]
    running_var[c]  <- (1 - momentum) * running_var[c] + momentum * (N*H*W / max(N*H*W - 1, 1)) * V[c]
    Y[n, c, h, w] = (X[n, c, h, w] - M[c]) * rsqrt(V[c] + eps) * gain[c] + offset[c]
  } else {
    Y[n, c, h, w] = (X[n, c, h, w] - running_mean[c]) * rsqrt(running_var[c] + eps) * gain[c] + offset[c]
  }
}

# The same for [batch, features].
def batch_norm1d(X[N, C]; momentum = 0.1, eps = 1e-5) -> Y {
  require eps >= 0, "`eps` must be 0 or more"
  require momentum >= 0 and momentum <= 1, "`momentum` must be from 0 to 1"
  param gain[C]   = 1
  param offset[C] = zeros()
  state running_mean[C] = zeros()
  state running_var[C]  = 1
  if training {
    M[c] = mean[n] X[n, c]
    V[c] = mean[n] (X[n, c] - M[c])^2
    running_mean[c] <- (1 - momentum) * running_mean[c] + momentum * M[c]
    running_var[c]  <- (1 - momentum) * running_var[c] + momentum * (N / max(N - 1, 1)) * V[c]
    Y[n, c] = (X[n, c] - M[c]) * rsqrt(V[c] + eps) * gain[c] + offset[c]
  } else {
    Y[n, c] = (X[n, c] - running_mean[c]) * rsqrt(running_var[c] + eps) * gain[c] + offset[c]
  }
}

# Drops each value with probability p while training and scales the others, so that the mean stays. `random()` counts: the same
# seed gives the same mask, whatever the number of threads, and the gradient sees the mask of its forward step.
def dropout(X[...]; p = 0.5) -> Y {
  require p >= 0 and p < 1, "`p` must be at least 0 and less than 1"
  if training { Y[...] = select(random() < p, 0, X[...] * (1 / (1 - p))) }
  else { Y[...] = X[...] }
}
