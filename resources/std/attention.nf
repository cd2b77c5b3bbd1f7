# SPDX-License-Identifier: Apache-2.0
# Attention: a softmax decides how much each query reads of each value.

# Q, K, V: [batch, head, time, features]. causal=1: a query reads its own time and earlier ones only. The masked scores are
# -inf, which softmax turns into exact zeros.
def attention(Q[B, H, T, D], K[B, H, S, D], V[B, H, S, E]; causal = 0) -> Y {
  Score[b, h, i, j] = sum[d] Q[b, h, i, d] * K[b, h, j, d] * (1 / sqrt(D))
  if causal == 0 {
    P = softmax(Score)
  } else {
    Masked[b, h, i: T, j: S] = select(j <= i, Score[b, h, i, j], -inf)
    P = softmax(Masked)
  }
  Y[b, h, i, e] = sum[j] P[b, h, i, j] * V[b, h, j, e]
}

# Projections, heads and the projection back. X: [batch, time, features].
def self_attention(X[B, T, C], heads; causal = 0) -> Y {
  require heads >= 1, "`heads` is at least 1"
  require C % heads == 0, "`heads` must divide the features C"
  let D = C // heads
  Pq = linear(X, C)
  Pk = linear(X, C)
  Pv = linear(X, C)
  Q[b, h: heads, t, d: D] = Pq[b, t, h*D + d]
  K[b, h: heads, t, d: D] = Pk[b, t, h*D + d]
  V[b, h: heads, t, d: D] = Pv[b, t, h*D + d]
  A = attention(Q, K, V, causal=causal)
  Joined[b, t, c: C] = A[b, c // D, t, c % D]
  Y = linear(Joined, C)
}

# One layer of BERT: attention and a two-layer network, each added to its input and normalised. Erf gelu.
def encoder_layer(X[B, T, C], heads, inner; eps = 1e-12) -> Y {
  require eps >= 0, "`eps` must be 0 or more"
  A = self_attention(X, heads)
  N = layer_norm(X + A, eps=eps)
  F = linear(gelu(linear(N, inner)), C)
  Y = layer_norm(N + F, eps=eps)
}
