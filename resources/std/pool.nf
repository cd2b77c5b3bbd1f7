# SPDX-License-Identifier: Apache-2.0
# Pooling on [batch, channel, height, width]. Windows may overlap; the gradient of an overlapping window is found by inverting
# p*stride + r - pad, like that of a convolution.

# The greatest value of each window. Where several are equal the first in row-major order gets the gradient.
def max_pool2d(X[N, C, H, W], R; stride = R, pad = 0) -> Y {
  require stride >= 1, "`stride` is at least 1"
  require H + 2*pad >= R and W + 2*pad >= R, "the window does not fit into the padded image"
  require pad >= 0 and 2*pad <= R, "`pad` must be from 0 to half of the window R, or a window may lie outside"
  Y[n, c, p: (H + 2*pad - R) // stride + 1, q: (W + 2*pad - R) // stride + 1] =
    max[r: R, s: R] X[n, c, p*stride + r - pad, q*stride + s - pad] else (-inf)
}

# The mean of each window; what lies outside counts as zeros.
def avg_pool2d(X[N, C, H, W], R; stride = R, pad = 0) -> Y {
  require stride >= 1, "`stride` is at least 1"
  require H + 2*pad >= R and W + 2*pad >= R, "the window does not fit into the padded image"
  Y[n, c, p: (H + 2*pad - R) // stride + 1, q: (W + 2*pad - R) // stride + 1] =
    mean[r: R, s: R] (X[n, c, p*stride + r - pad, q*stride + s - pad] else 0)
}

# One number a channel.
def global_avg_pool(X[N, C, ...]) -> Y { Y[n, c] = mean[...] X[n, c, ...] }
def global_max_pool(X[N, C, ...]) -> Y { Y[n, c] = max[...] X[n, c, ...] }
