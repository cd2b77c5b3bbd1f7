param w = 1
loss L = w * w
train L { steps: 3, lr: 0.1 }
show w
# ---- diagnostics
[expected] attribute_colon.nf:3:16: error: expected `=` and the value of `steps`, found `:`
  train L { steps: 3, lr: 0.1 }
                 ^
help: write ` =`
fix: write ` =`: `:` becomes ` =`
