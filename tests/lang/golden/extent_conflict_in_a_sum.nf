input A[4, 3]
Y[i] = sum[k] A[i, k] * A[k, 0]
# ---- diagnostics
[extent-conflict] extent_conflict_in_a_sum.nf:2:27: error: index `k` meets two extents: 3 (axis 1 of `A`) and 4 (axis 0 of `A`)
  Y[i] = sum[k] A[i, k] * A[k, 0]
                            ^
extent_conflict_in_a_sum.nf:2:20: note: the first place
  Y[i] = sum[k] A[i, k] * A[k, 0]
                     ^
help: write `sum[k: 3]`
fix: write `sum[k: 3]`: `k` becomes `k: 3`
