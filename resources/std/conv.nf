# SPDX-License-Identifier: Apache-2.0
# Convolutions on [batch, channel, height, width]. Padding is one word: `X[..] else 0` reads 0 where an index falls outside, and
# only the tests that are needed are kept. Where the stride or the number of groups is 1 their arithmetic vanishes.

# K filters of R x R. groups: channels and filters are split into that many independent convolutions. `require` refuses a call
# that makes no sense, in the words that stand behind it.
def conv2d(X[N, C, H, W], K, R; stride = 1, pad = 0, dilation = 1, groups = 1, bias = 0) -> Y {
  require stride >= 1 and dilation >= 1 and groups >= 1, "`stride`, `dilation` and `groups` are at least 1"
  require C % groups == 0 and K % groups == 0, "`groups` must divide the channels C and the filters K"
  require H + 2*pad > dilation*(R - 1) and W + 2*pad > dilation*(R - 1), "the window does not fit into the padded image"
  let D = C // groups, M = K // groups
  param F[K, D, R, R] = kaiming()
  if bias == 0 {
    Y[n, k, p: (H + 2*pad - dilation*(R - 1) - 1) // stride + 1, q: (W + 2*pad - dilation*(R - 1) - 1) // stride + 1] =
      sum[c: D, r: R, s: R] (X[n, k // M * D + c, p*stride + r*dilation - pad, q*stride + s*dilation - pad] else 0) * F[k, c, r, s]
  } else {
    param offset[K] = zeros()
    Y[n, k, p: (H + 2*pad - dilation*(R - 1) - 1) // stride + 1, q: (W + 2*pad - dilation*(R - 1) - 1) // stride + 1] =
      offset[k] + sum[c: D, r: R, s: R] (X[n, k // M * D + c, p*stride + r*dilation - pad, q*stride + s*dilation - pad] else 0) * F[k, c, r, s]
  }
}

# Each channel by its own filter.
def depthwise2d(X[N, C, H, W], R; stride = 1, pad = 0, dilation = 1) -> Y {
  require stride >= 1 and dilation >= 1, "`stride` and `dilation` are at least 1"
  require H + 2*pad > dilation*(R - 1) and W + 2*pad > dilation*(R - 1), "the window does not fit into the padded image"
  param F[C, R, R] = kaiming()
  Y[n, c, p: (H + 2*pad - dilation*(R - 1) - 1) // stride + 1, q: (W + 2*pad - dilation*(R - 1) - 1) // stride + 1] =
    sum[r: R, s: R] (X[n, c, p*stride + r*dilation - pad, q*stride + s*dilation - pad] else 0) * F[c, r, s]
}

# The transpose of conv2d: it spreads each input over R x R outputs. In gather form: output h reads input (h + pad - r) / stride
# where that is an integer.
def conv_transpose2d(X[N, C, H, W], K, R; stride = 1, pad = 0) -> Y {
  require stride >= 1, "`stride` is at least 1"
  param F[C, K, R, R] = kaiming()
  Y[n, k, h: (H - 1)*stride + R - 2*pad, w: (W - 1)*stride + R - 2*pad] =
    sum[c: C, r: R, s: R] select((h + pad - r) % stride == 0 and (w + pad - s) % stride == 0,
                                 X[n, c, (h + pad - r) // stride, (w + pad - s) // stride] else 0, 0) * F[c, k, r, s]
}

# Channels into space: B x B channels become a block of B x B pixels.
def depth2space(X[N, C, H, W], B) -> Y {
  require B >= 1, "B is at least 1"
  require C % (B*B) == 0, "B*B must divide the channels C"
  Y[n, c: C // (B*B), h: H*B, w: W*B] = X[n, c*B*B + h % B * B + w % B, h // B, w // B]
}

# Mixes the channels of groups, so that the next grouped convolution sees all of them.
def channel_shuffle(X[N, C, H, W], groups) -> Y {
  require groups >= 1, "`groups` is at least 1"
  require C % groups == 0, "`groups` must divide the channels C"
  Y[n, c: C, h, w] = X[n, c % groups * (C // groups) + c // groups, h, w]
}

# Every pixel becomes a block of S x S.
def upsample(X[N, C, H, W], S) -> Y {
  Y[n, c, h: H*S, w: W*S] = X[n, c, h // S, w // S]
}

# Two tensors one behind the other along the channels.
def concat(A[N, C, H, W], B[N, D, H, W]) -> Y {
  Y[n, c: C + D, h: H, w: W] = select(c < C, A[n, c, h, w], B[n, c - C, h, w])
}
