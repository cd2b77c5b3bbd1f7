input X[3, 3]
softmax(X)
# ---- diagnostics
[no-effect] no_effect_call.nf:2:1: error: the result of `softmax` is not used
  softmax(X)
  ^~~~~~~~~~
help: name it: `Y = `
fix: name it: `` becomes `Y = `
