input X[3] = 1
param W[3] = zeros()
loss L = sum[i] (X[i] - W[i])^2
train L { steps = 2, optimizer = adam(beta1=2) }
# ---- diagnostics
[requirement] decay_rate.nf:4:34: error: `adam`: `beta1 >= 0 and beta1 < 1` does not hold: beta1 = 2
  train L { steps = 2, optimizer = adam(beta1=2) }
                                   ^~~~
std/optimizer.nf:35:11: note: it is required here
    require beta1 >= 0 and beta1 < 1
            ^~~~~~~~~~~~~~~~~~~~~~~~
