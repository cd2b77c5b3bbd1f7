input X[8, 3]
param W[3] = normal(0, 1)
loss L = mean[b, i] (X[b, i]*W[i])^2
train L { steps = 5; optimizer = adam(lr=nan) }
# ---- diagnostics
[bad-attribute] optimizer_not_a_number.nf:4:39: error: `lr` is not a number
  train L { steps = 5; optimizer = adam(lr=nan) }
                                        ^~
