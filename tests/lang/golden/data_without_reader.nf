data D2 = "missing/nothing.csv" { split = last 3 }
let B = 4
input X[B, 3] = batch D2[:, 0..3]
param w[3] = normal(0, 1)
loss L = mean[b, k] (X[b, k] * w[k])^2
train L { steps = 3; optimizer = nosuch(lr=0.1) }
# ---- diagnostics
[missing-reader] data_without_reader.nf:1:11: error: a file is named together with what reads it, as in `csv("d.csv")`
  data D2 = "missing/nothing.csv" { split = last 3 }
            ^~~~~~~~~~~~~~~~~~~~~
note: there are csv("d.csv"), npy("x.npy"), npz("x.npz", "W"), idx("images.idx"); or the bundled set `digits`
help: write `csv("missing/nothing.csv")`
fix: write `csv("missing/nothing.csv")`: `"missing/nothing.csv"` becomes `csv("missing/nothing.csv")`
[undefined-function] data_without_reader.nf:6:34: error: there is no optimizer `nosuch`
  train L { steps = 3; optimizer = nosuch(lr=0.1) }
                                   ^~~~~~
note: there are adam, momentum, sgd
note: an optimizer is a function like `def sgd(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`
