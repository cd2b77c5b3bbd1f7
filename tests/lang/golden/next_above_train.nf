param W[3]
show W.next
loss L = sum[i] W[i]^2
train L { steps = 2 }
# ---- diagnostics
[no-initial-value] next_above_train.nf:1:7: warning: `W` has no initial value
  param W[3]
        ^~~~
help: draw it at random: ` = kaiming()`
fix: draw it at random: `` becomes ` = kaiming()`
[undefined-name] next_above_train.nf:2:6: error: `W.next` is not defined
  show W.next
       ^~~~~~
note: a `train` that updates `W` makes it: it has to stand above what shows it
