data D = digits { split = last 0 }
let B = 2
input X[B, 64] = batch D[:, 0..64]
show X
# ---- diagnostics
[nothing-held-out] split_nothing.nf:1:27: warning: `split = last 0` holds no row out: all are for training, none is left to evaluate on
  data D = digits { split = last 0 }
                            ^~~~~~
