input A[30]
param W[3] = normal(0, 1)
Y[p: 29] = sum[r] A[p + r] * W[r]
# ---- diagnostics
[index-out-of-bounds] out_of_bounds_extent.nf:3:21: error: index `p + r` of `A`, axis 0, runs over 0..30, valid is 0..29: one past the end
  Y[p: 29] = sum[r] A[p + r] * W[r]
                      ^~~~~
note: with `p` over 0..28, `r` over 0..2
help: run `p` over 28
help: read 0 outside: ` else 0`
fix: run `p` over 28: `29` becomes `28`
fix: read 0 outside: `` becomes ` else 0`
