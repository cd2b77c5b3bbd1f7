input X[4]
param W[4]
Y[i] = X[i] * w[i]
# ---- diagnostics
[no-initial-value] letter_case.nf:2:7: warning: `W` has no initial value
  param W[4]
        ^~~~
help: draw it at random: ` = kaiming()`
fix: draw it at random: `` becomes ` = kaiming()`
[undefined-name] letter_case.nf:3:15: error: `w` is not defined
  Y[i] = X[i] * w[i]
                ^
help: write `W`
fix: write `W`: `w` becomes `W`
