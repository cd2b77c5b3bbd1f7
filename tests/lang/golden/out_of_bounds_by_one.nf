input A[57, 5]
param W[3] = normal(0, 1)
Y[p: 28] = sum[r] A[p*2 + r + 1, 0] * W[r]
# ---- diagnostics
[index-out-of-bounds] out_of_bounds_by_one.nf:3:21: error: index `2*p + r + 1` of `A`, axis 0, runs over 1..57, valid is 0..56: one past the end
  Y[p: 28] = sum[r] A[p*2 + r + 1, 0] * W[r]
                      ^~~~~~~~~~~
note: with `p` over 0..27, `r` over 0..2
help: run `p` over 27
help: read 0 outside: ` else 0`
fix: run `p` over 27: `28` becomes `27`
fix: read 0 outside: `` becomes ` else 0`
