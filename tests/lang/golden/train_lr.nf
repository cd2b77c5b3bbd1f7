param w = 1
loss L = w * w
train L { steps = 1; lr = 0.1 }
# ---- diagnostics
[unknown-attribute] train_lr.nf:3:22: error: `train` has no attribute `lr`
  train L { steps = 1; lr = 0.1 }
                       ^~
note: there are batch, clip, device, epochs, mode, optimizer, seed, steps, wrt
note: an optimizer has options of its own: `optimizer = sgd(lr=0.1, momentum=0.9)`, `adam(lr=1e-3)`
