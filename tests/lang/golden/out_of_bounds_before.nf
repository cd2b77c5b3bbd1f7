input X[5]
Y[i: 5] = X[i - 1]
# ---- diagnostics
[index-out-of-bounds] out_of_bounds_before.nf:2:13: error: index `i - 1` of `X`, axis 0, runs over -1..3, valid is 0..4: one before the start
  Y[i: 5] = X[i - 1]
              ^~~~~
note: with `i` over 0..4
help: read 0 outside: ` else 0`
fix: read 0 outside: `` becomes ` else 0`
