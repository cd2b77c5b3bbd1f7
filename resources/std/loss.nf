# SPDX-License-Identifier: Apache-2.0
# Losses: one number for a batch. Labels are integers, one a row. `select(y[b] == n, a, 0)` picks the label's column without a
# gather, so that the gradient is elementwise too.

# Of scores before softmax.
def cross_entropy(X[B, N], y[B]) -> L {
  P = log_softmax(X)
  L = sum[b, n] select(y[b] == n, P[b, n], 0) * (-1 / B)
}

def mse(X[...], T[...]) -> L { L = mean[...] (X[...] - T[...])^2 }

# Sabour, Frosst and Hinton, "Dynamic routing between capsules": V holds the lengths of the class capsules. The right class is
# pulled above `up`, the others below `down`.
def margin_loss(V[B, N], y[B]; up = 0.9, down = 0.1, weight = 0.5) -> L {
  L = sum[b, n] select(y[b] == n, relu(up - V[b, n])^2, weight * relu(V[b, n] - down)^2) * (1 / B)
}

# Share of rows whose greatest score is the label's.
def accuracy(Y[B, N], y[B]) -> A { A = mean[b] (argmax[n] Y[b, n] == y[b]) }
