input X[4]
h = 0
for q in 0..9 { h = h + X[q] }
# ---- diagnostics
[index-out-of-bounds] loop_bounds.nf:3:27: error: index `q` of `X`, axis 0, runs over 0..8, valid is 0..3: 5 past the end
  for q in 0..9 { h = h + X[q] }
                            ^
note: with `q` in 0..9
help: run `q` over 0..4
help: read 0 outside: ` else 0`
fix: run `q` over 0..4: `9` becomes `4`
fix: read 0 outside: `` becomes ` else 0`
