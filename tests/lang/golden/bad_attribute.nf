param w = 1
loss L = w * w
train L { steps = 10; mode = fast; clip = -1; device = tpu }
# ---- diagnostics
[bad-attribute] bad_attribute.nf:3:30: error: `mode` takes one of dynamic, static
  train L { steps = 10; mode = fast; clip = -1; device = tpu }
                               ^~~~
[bad-attribute] bad_attribute.nf:3:43: error: `clip` is a positive number or none
  train L { steps = 10; mode = fast; clip = -1; device = tpu }
                                            ^~
[bad-attribute] bad_attribute.nf:3:56: error: `device` takes one of auto, reference, cpu, cuda, or a numbered one as in "cuda:1"
  train L { steps = 10; mode = fast; clip = -1; device = tpu }
                                                         ^~~
