param w = 1
loss L = w * w
train L { step = 10; optimizer = sgd(lr=0.1) }
# ---- diagnostics
[unknown-attribute] unknown_attribute.nf:3:11: error: `train` has no attribute `step`
  train L { step = 10; optimizer = sgd(lr=0.1) }
            ^~~~
note: there are batch, clip, device, epochs, mode, optimizer, seed, steps, wrt
help: write `steps`
fix: write `steps`: `step` becomes `steps`
