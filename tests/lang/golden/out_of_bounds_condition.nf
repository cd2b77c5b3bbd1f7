input X[5]
Y[i: 9] = select(i < 6, X[i], 0)
# ---- diagnostics
[index-out-of-bounds] out_of_bounds_condition.nf:2:27: error: index `i` of `X`, axis 0, runs over 0..5, valid is 0..4: one past the end
  Y[i: 9] = select(i < 6, X[i], 0)
                            ^
note: with `i` over 0..8
help: run `i` over 5
help: read 0 outside: ` else 0`
fix: run `i` over 5: `9` becomes `5`
fix: read 0 outside: `` becomes ` else 0`
