param W[3] = 1
loss L = sum[i] W[i]^2
train L { epoch = 3; optimzer = sgd(lr=1) }
train L { steps = 3; optimizer = sdg(lr=1); mode = statik }
data D = digitz
data E = csvv("d.csv")
# ---- diagnostics
[unknown-attribute] misspelt_settings.nf:3:11: error: `train` has no attribute `epoch`
  train L { epoch = 3; optimzer = sgd(lr=1) }
            ^~~~~
note: there are batch, clip, device, epochs, mode, optimizer, seed, steps, wrt
help: write `epochs`
fix: write `epochs`: `epoch` becomes `epochs`
[unknown-attribute] misspelt_settings.nf:3:22: error: `train` has no attribute `optimzer`
  train L { epoch = 3; optimzer = sgd(lr=1) }
                       ^~~~~~~~
note: there are batch, clip, device, epochs, mode, optimizer, seed, steps, wrt
help: write `optimizer`
fix: write `optimizer`: `optimzer` becomes `optimizer`
[undefined-function] misspelt_settings.nf:4:34: error: there is no optimizer `sdg`
  train L { steps = 3; optimizer = sdg(lr=1); mode = statik }
                                   ^~~
note: there are adam, momentum, sgd
note: an optimizer is a function like `def sgd(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`
help: write `sgd`
fix: write `sgd`: `sdg` becomes `sgd`
[bad-attribute] misspelt_settings.nf:4:52: error: `mode` takes one of dynamic, static
  train L { steps = 3; optimizer = sdg(lr=1); mode = statik }
                                                     ^~~~~~
help: write `static`
fix: write `static`: `statik` becomes `static`
[unknown-data] misspelt_settings.nf:5:10: error: `digitz` is no bundled data set: there is `digits`
  data D = digitz
           ^~~~~~
help: write `digits`
fix: write `digits`: `digitz` becomes `digits`
[unknown-initializer] misspelt_settings.nf:6:10: error: `csvv` reads no data: there are csv, npy, npz, idx, and the bundled set `digits`
  data E = csvv("d.csv")
           ^~~~
help: write `csv`
fix: write `csv`: `csvv` becomes `csv`
