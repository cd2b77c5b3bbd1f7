input x
loss L = x * x
train L { steps = 1 }
# ---- diagnostics
[nothing-to-train] nothing_to_train.nf:3:7: error: `L` depends on no parameter
  train L { steps = 1 }
        ^
