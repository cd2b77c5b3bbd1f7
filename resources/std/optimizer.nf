# SPDX-License-Identifier: Apache-2.0
# Optimizers. `train` calls one for each parameter W with its gradient G. `<-` takes effect at the end of the step, so every
# right side sees the old values and a step stays a function. They are operators like all others: fusion joins them with what
# makes the gradient.

# Stochastic gradient descent, with momentum and weight decay where they are asked for.
def sgd(W[...], G[...]; lr = 0.01, momentum = 0, decay = 0) {
  require lr >= 0, "`lr` must be 0 or more: a loss that is to grow is negated"
  require momentum >= 0 and momentum < 1
  require decay >= 0
  if decay == 0 { D = G } else { D[...] = G[...] + decay * W[...] }
  if momentum == 0 {
    W[...] <- W[...] - lr * D[...]
  } else {
    state m[...] = zeros()
    M[...] = momentum * m[...] + D[...]
    m <- M
    W[...] <- W[...] - lr * M[...]
  }
}

def momentum(W[...], G[...]; lr = 0.01, beta = 0.9) {
  require lr >= 0, "`lr` must be 0 or more: a loss that is to grow is negated"
  require beta >= 0 and beta < 1
  state m[...] = zeros()
  M[...] = beta * m[...] + G[...]
  m <- M
  W[...] <- W[...] - lr * M[...]
}

# Kingma and Ba. t counts the steps from 1: `train` keeps it. The two corrections are scalars, worked out once for all parameters, and in
# double precision: of 1 - 0.999^t little would be left in f32.
def adam(W[...], G[...], t; lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8) {
  require lr >= 0, "`lr` must be 0 or more: a loss that is to grow is negated"
  require beta1 >= 0 and beta1 < 1
  require beta2 >= 0 and beta2 < 1
  require eps >= 0
  state m[...] = zeros()
  state v[...] = zeros()
  c1 = f32(1 / (1 - f64(beta1)^t))
  c2 = f32(1 / (1 - f64(beta2)^t))
  M[...] = beta1 * m[...] + (1 - beta1) * G[...]
  V[...] = beta2 * v[...] + (1 - beta2) * G[...]^2
  m <- M
  v <- V
  W[...] <- W[...] - lr * (M[...] * c1) / (sqrt(V[...] * c2) + eps)
}
