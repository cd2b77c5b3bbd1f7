param w = 1
loss L = w * w
train L { steps = 10; mode = fast; clip = -1 }
# ---- diagnostics
[bad-attribute] bad_attribute.nf:3:30: error: `mode` takes one of dynamic, static
  train L { steps = 10; mode = fast; clip = -1 }
                               ^~~~
[bad-attribute] bad_attribute.nf:3:43: error: `clip` is a positive number or none
  train L { steps = 10; mode = fast; clip = -1 }
                                            ^~
