param w = 1
loss L = w * w
train L { steps = 10; clip = nan }
# ---- diagnostics
[bad-attribute] clip_of_nan.nf:3:30: error: `clip` is a positive number or none
  train L { steps = 10; clip = nan }
                               ^~~
