input X[4] = 1
param W[4] = 1
def opt(W[...], G[...]; lr) = W - lr*G
def idle(W[...], G[...]; lr) { Q[...] = W[...] - lr*G[...] }
def alone(W[...]) { W[...] <- 0.9*W[...] }
loss L = sum[i] X[i]*W[i]
train L { optimizer = opt(lr=0.1); steps = 1 }
train L { optimizer = idle(lr=0.1); steps = 1 }
train L { optimizer = alone(); steps = 1 }
# ---- diagnostics
[undefined-function] optimizer_of_one_expression.nf:7:23: error: `opt` is no optimizer: it is one expression and updates nothing
  train L { optimizer = opt(lr=0.1); steps = 1 }
                        ^~~
optimizer_of_one_expression.nf:3:5: note: opt(W[...], G[...]; lr) = W - lr*G
  def opt(W[...], G[...]; lr) = W - lr*G
      ^~~
note: as in `def opt(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`
[undefined-function] optimizer_of_one_expression.nf:8:23: error: `idle` is no optimizer: it does not update its first parameter
  train L { optimizer = idle(lr=0.1); steps = 1 }
                        ^~~~
optimizer_of_one_expression.nf:4:5: note: idle(W[...], G[...]; lr)
  def idle(W[...], G[...]; lr) { Q[...] = W[...] - lr*G[...] }
      ^~~~
note: as in `def idle(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`
[undefined-function] optimizer_of_one_expression.nf:9:23: error: `alone` is no optimizer: it does not take a parameter and its gradient
  train L { optimizer = alone(); steps = 1 }
                        ^~~~~
optimizer_of_one_expression.nf:5:5: note: alone(W[...])
  def alone(W[...]) { W[...] <- 0.9*W[...] }
      ^~~~~
note: as in `def alone(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`
