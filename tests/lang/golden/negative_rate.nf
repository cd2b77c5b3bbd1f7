param W[3] = zeros()
loss L = sum[i] W[i]^2
train L { steps = 1; optimizer = sgd(lr=-1) }
# ---- diagnostics
[requirement] negative_rate.nf:3:34: error: `sgd`: `lr` must be 0 or more: a loss that is to grow is negated: lr = -1
  train L { steps = 1; optimizer = sgd(lr=-1) }
                                   ^~~
std/optimizer.nf:8:11: note: it is required here
    require lr >= 0, "`lr` must be 0 or more: a loss that is to grow is negated"
            ^~~~~~~
