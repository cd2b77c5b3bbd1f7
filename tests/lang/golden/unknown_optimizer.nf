param w = 1
loss L = w * w
train L { steps = 10; optimizer = lion(lr=0.1) }
# ---- diagnostics
[undefined-function] unknown_optimizer.nf:3:35: error: there is no optimizer `lion`
  train L { steps = 10; optimizer = lion(lr=0.1) }
                                    ^~~~
note: there are adam, momentum, sgd
note: an optimizer is a function like `def sgd(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`
