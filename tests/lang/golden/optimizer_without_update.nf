input X[8, 3]
param W[3] = normal(0, 1)
loss L = mean[b, i] (X[b, i]*W[i])^2
def idle(W[...], G[...]; lr) { Q[...] = W[...] - lr*G[...] }
train L { steps = 5; optimizer = idle(lr=1) }
# ---- diagnostics
[undefined-function] optimizer_without_update.nf:5:34: error: `idle` is no optimizer: it does not update its first parameter
  train L { steps = 5; optimizer = idle(lr=1) }
                                   ^~~~
optimizer_without_update.nf:4:5: note: idle(W[...], G[...]; lr)
  def idle(W[...], G[...]; lr) { Q[...] = W[...] - lr*G[...] }
      ^~~~
note: as in `def idle(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`
