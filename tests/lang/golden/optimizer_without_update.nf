input X[8, 3]
param W[3] = normal(0, 1)
loss L = mean[b, i] (X[b, i]*W[i])^2
def idle(W[...], G[...]; lr) { Q[...] = W[...] - lr*G[...] }
train L { steps = 5; optimizer = idle(lr=1) }
# ---- diagnostics
[no-update] optimizer_without_update.nf:5:34: error: `idle` gives no parameter its next value: nothing would be trained
  train L { steps = 5; optimizer = idle(lr=1) }
                                   ^~~~
optimizer_without_update.nf:4:5: note: `W[...] <- ...` gives one
  def idle(W[...], G[...]; lr) { Q[...] = W[...] - lr*G[...] }
      ^~~~
