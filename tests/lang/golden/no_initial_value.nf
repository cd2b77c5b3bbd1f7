param W[3]
Y[i] = W[i]
# ---- diagnostics
[no-initial-value] no_initial_value.nf:1:7: warning: `W` has no initial value
  param W[3]
        ^~~~
help: draw it at random: ` = kaiming()`
fix: draw it at random: `` becomes ` = kaiming()`
