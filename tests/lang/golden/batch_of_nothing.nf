data D = digits { split = last 360 }
input X[B, 64] = batch D[:, 0..64]
param W[64] = 1
loss L = mean[b, k] X[b, k]*W[k]
train L { epochs = 1; batch = 0; optimizer = sgd(lr=0.1) }
# ---- diagnostics
[bad-attribute] batch_of_nothing.nf:5:31: error: `batch` is at least 1
  train L { epochs = 1; batch = 0; optimizer = sgd(lr=0.1) }
                                ^
