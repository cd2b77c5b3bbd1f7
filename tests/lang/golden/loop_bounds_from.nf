input X[4]
h = 0
for q in 1..9 { h = h + X[2*q - 2] }
# ---- diagnostics
[index-out-of-bounds] loop_bounds_from.nf:3:27: error: index `2*q - 2` of `X`, axis 0, runs over 0..14, valid is 0..3: 11 past the end
  for q in 1..9 { h = h + X[2*q - 2] }
                            ^~~~~~~
note: with `q` in 1..9
help: run `q` over 1..3
help: read 0 outside: ` else 0`
fix: run `q` over 1..3: `9` becomes `3`
fix: read 0 outside: `` becomes ` else 0`
