input X[3]
param I[3]: i32
loss L = sum[i] (f32(I[i]) * X[i])
train L { steps = 2; wrt = I }
# ---- diagnostics
[no-initial-value] whole_numbers_to_train.nf:2:7: warning: `I` has no initial value
  param I[3]: i32
        ^~~~
help: draw it at random: ` = kaiming()`
fix: draw it at random: `` becomes ` = kaiming()`
[nothing-to-train] whole_numbers_to_train.nf:4:7: error: `L` depends on no parameter named in `wrt`
  train L { steps = 2; wrt = I }
        ^
note: `I` holds whole numbers, which are not trained: `: f32` makes it a parameter that is
