input X[4, 3]
input W[3, 2]
h = X
for t in 0..3 { h[i, j] = h[i, j] + W[i, j] + sum[k] W[k, 0] * X[k, 0] }
show h
# ---- diagnostics
[extent-conflict] extent_conflict_in_a_loop.nf:4:39: error: index `i` meets two extents: 4 (axis 0 of `h`) and 3 (axis 0 of `W`)
  for t in 0..3 { h[i, j] = h[i, j] + W[i, j] + sum[k] W[k, 0] * X[k, 0] }
                                        ^
extent_conflict_in_a_loop.nf:4:29: note: the first place
  for t in 0..3 { h[i, j] = h[i, j] + W[i, j] + sum[k] W[k, 0] * X[k, 0] }
                              ^
[extent-conflict] extent_conflict_in_a_loop.nf:4:42: error: index `j` meets two extents: 3 (axis 1 of `h`) and 2 (axis 1 of `W`)
  for t in 0..3 { h[i, j] = h[i, j] + W[i, j] + sum[k] W[k, 0] * X[k, 0] }
                                           ^
extent_conflict_in_a_loop.nf:4:32: note: the first place
  for t in 0..3 { h[i, j] = h[i, j] + W[i, j] + sum[k] W[k, 0] * X[k, 0] }
                                 ^
[extent-conflict] extent_conflict_in_a_loop.nf:4:66: error: index `k` meets two extents: 3 (axis 0 of `W`) and 4 (axis 0 of `X`)
  for t in 0..3 { h[i, j] = h[i, j] + W[i, j] + sum[k] W[k, 0] * X[k, 0] }
                                                                   ^
extent_conflict_in_a_loop.nf:4:56: note: the first place
  for t in 0..3 { h[i, j] = h[i, j] + W[i, j] + sum[k] W[k, 0] * X[k, 0] }
                                                         ^
help: write `sum[k: 3]`
fix: write `sum[k: 3]`: `k` becomes `k: 3`
