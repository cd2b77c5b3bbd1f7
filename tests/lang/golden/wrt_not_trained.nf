param w = 1
param z = 1
loss L = w * w
train L { steps = 1; wrt = tensors(w, z) }
# ---- diagnostics
[not-trained] wrt_not_trained.nf:4:39: warning: `L` does not depend on `z`: it is not trained
  train L { steps = 1; wrt = tensors(w, z) }
                                        ^
