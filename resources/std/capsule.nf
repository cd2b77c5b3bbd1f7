# SPDX-License-Identifier: Apache-2.0
# Capsules: small vectors whose length says how sure and whose direction says how.

# Keeps the direction and maps the length to [0, 1). Over the last axis.
def squash(S[..., D]) -> Y {
  Q[...] = sum[d] S[..., d]^2
  Y[..., d] = S[..., d] * Q[...] / ((1 + Q[...]) * sqrt(Q[...] + 1e-8))
}

# Lengths of the vectors along the last axis.
def lengths(V[..., D]) -> Y {
  Q[...] = sum[d] V[..., d]^2
  Y[...] = sqrt(Q[...] + 1e-8)
}

# Capsule convolution with 4 x 4 poses (NeoFlow, section 2.3): every product of a convolution becomes a matrix product.
def capsule_conv(A[N, C, H, W, I, J], K, R; stride = 1, pad = 0) -> Y {
  require stride >= 1, "`stride` is at least 1"
  require H + 2*pad >= R and W + 2*pad >= R, "the window does not fit into the padded image"
  param F[K, C, R, R, J, J] = kaiming()
  Y[n, k, p: (H + 2*pad - R) // stride + 1, q: (W + 2*pad - R) // stride + 1, i: I, j: J] =
    sum[c: C, r: R, s: R, l: J] (A[n, c, p*stride + r - pad, q*stride + s - pad, i, l] else 0) * F[k, c, r, s, l, j]
}

# Vector capsules: T types of D elements from one convolution.
def capsule_conv_vector(X[N, C, H, W], T, D, R; stride = 1, pad = 0) -> Y {
  require stride >= 1, "`stride` is at least 1"
  require H + 2*pad >= R and W + 2*pad >= R, "the window does not fit into the padded image"
  param F[D, T, C, R, R] = kaiming()
  Y[n, d, t, p: (H + 2*pad - R) // stride + 1, q: (W + 2*pad - R) // stride + 1] =
    sum[c: C, r: R, s: R] (X[n, c, p*stride + r - pad, q*stride + s - pad] else 0) * F[d, t, c, r, s]
}

# Dynamic routing by agreement. U holds the vote of capsule i for class n, a vector of E elements. Each round sends more of a
# vote to the class it agrees with. `repeat` unrolls, so gradients flow through every round. At first all classes
# are equally likely: each vote counts 1/N.
def routing(U[B, I, N, E]; iterations = 3) -> V {
  require iterations >= 2, "`iterations` is at least 2"
  First[b, n, e] = sum[i] U[b, i, n, e] * (1 / N)
  Vote = squash(First)
  Logit[b, i, n] = sum[e] U[b, i, n, e] * Vote[b, n, e]
  repeat iterations - 2 {
    C = softmax(Logit)
    S[b, n, e] = sum[i] C[b, i, n] * U[b, i, n, e]
    Vote = squash(S)
    Logit[b, i, n] = Logit[b, i, n] + sum[e] U[b, i, n, e] * Vote[b, n, e]
  }
  Share = softmax(Logit)
  Sum[b, n, e] = sum[i] Share[b, i, n] * U[b, i, n, e]
  V = squash(Sum)
}
