# SPDX-License-Identifier: Apache-2.0
# Recurrent cells: one step. A net over time is a loop that carries their state:
#
#     for t in 0..T { h, c = lstm(X[_, t, _], h, c) }
#
# The parameters are made once, outside time. Gates lie along the first axis of a weight: W[g, n, i].

# Long short-term memory, gates input, forget, candidate, output.
def lstm(x[B, I], h[B, H], c[B, H]) -> hNext, cNext {
  param W[4, H, I]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param U[4, H, H]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param offset[4, H] = uniform(-1 / sqrt(H), 1 / sqrt(H))
  Z[b, g, n] = offset[g, n] + (sum[i] x[b, i] * W[g, n, i]) + sum[k] h[b, k] * U[g, n, k]
  cNext[b, n] = sigmoid(Z[b, 1, n]) * c[b, n] + sigmoid(Z[b, 0, n]) * tanh(Z[b, 2, n])
  hNext[b, n] = sigmoid(Z[b, 3, n]) * tanh(cNext[b, n])
}

# Multiplicative integration (Wu et al. 2016): the two contractions are multiplied, not added. A state of zeros would kill the
# product, so start h at another value.
def milstm(x[B, I], h[B, H], c[B, H]) -> hNext, cNext {
  param W[4, H, I]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param U[4, H, H]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param offset[4, H] = uniform(-1 / sqrt(H), 1 / sqrt(H))
  Z[b, g, n] = (sum[i] x[b, i] * W[g, n, i]) * (sum[k] h[b, k] * U[g, n, k]) + offset[g, n]
  cNext[b, n] = sigmoid(Z[b, 1, n]) * c[b, n] + sigmoid(Z[b, 0, n]) * tanh(Z[b, 2, n])
  hNext[b, n] = sigmoid(Z[b, 3, n]) * tanh(cNext[b, n])
}

# Structurally constrained (Mikolov et al. 2015): s forgets slowly, by a fixed alpha.
def scrnn(x[B, I], h[B, H], s[B, S]; alpha = 0.95) -> hNext, sNext {
  param Bx[S, I] = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param P[H, S]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param A[H, I]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param R[H, H]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  sNext[b, m] = (1 - alpha) * (sum[i] x[b, i] * Bx[m, i]) + alpha * s[b, m]
  hNext[b, n] = sigmoid((sum[m] sNext[b, m] * P[n, m]) + (sum[i] x[b, i] * A[n, i]) + sum[k] h[b, k] * R[n, k])
}

# Subtractive gating (Costa et al. 2017).
def sublstm(x[B, I], h[B, H], c[B, H]) -> hNext, cNext {
  param W[4, H, I]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param R[4, H, H]  = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param offset[4, H] = uniform(-1 / sqrt(H), 1 / sqrt(H))
  Z[b, g, n] = sigmoid(offset[g, n] + (sum[i] x[b, i] * W[g, n, i]) + sum[k] h[b, k] * R[g, n, k])
  cNext[b, n] = Z[b, 1, n] * c[b, n] + Z[b, 2, n] - Z[b, 0, n]
  hNext[b, n] = sigmoid(cNext[b, n]) - Z[b, 3, n]
}

# Long long-term memory (PyTorch's extension tutorial): no forget gate; the first H columns of W belong to h.
def lltm(x[B, I], h[B, H], c[B, H]) -> hNext, cNext {
  param W[3, H, H + I] = uniform(-1 / sqrt(H), 1 / sqrt(H))
  param offset[3, H]   = uniform(-1 / sqrt(H), 1 / sqrt(H))
  Z[b, g, n] = offset[g, n] + (sum[k: H] h[b, k] * W[g, n, k]) + sum[i: I] x[b, i] * W[g, n, H + i]
  cNext[b, n] = c[b, n] + elu(Z[b, 2, n]) * sigmoid(Z[b, 0, n])
  hNext[b, n] = tanh(cNext[b, n]) * sigmoid(Z[b, 1, n])
}
