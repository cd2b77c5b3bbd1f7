input X[3] = 1
param W[3] = zeros()
loss L = sum[i] (X[i] - W[i])^2
train L { steps = 2, optimizer = sgd(momentum=1) }
# ---- diagnostics
[requirement] decay_rate_of_momentum.nf:4:34: error: `sgd`: `momentum >= 0 and momentum < 1` does not hold: momentum = 1
  train L { steps = 2, optimizer = sgd(momentum=1) }
                                   ^~~
std/optimizer.nf:9:11: note: it is required here
    require momentum >= 0 and momentum < 1
            ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
