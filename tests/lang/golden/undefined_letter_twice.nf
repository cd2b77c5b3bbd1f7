let n = 4
input X[n, n] = normal(0, 1)
Y[i, k] = X[i, kk] * nn
Z[i, k] = X[i, ik]
# ---- diagnostics
[undefined-name] undefined_letter_twice.nf:3:16: error: `kk` is not defined: it is no tensor, number or index of this statement
  Y[i, k] = X[i, kk] * nn
                 ^~
note: as an index it stands on the left, or in a reduction: `sum[kk] ...`
help: write `k`
fix: write `k`: `kk` becomes `k`
[undefined-name] undefined_letter_twice.nf:3:22: error: `nn` is not defined: it is no tensor, number or index of this statement
  Y[i, k] = X[i, kk] * nn
                       ^~
note: as an index it stands on the left, or in a reduction: `sum[nn] ...`
help: write `n`
fix: write `n`: `nn` becomes `n`
[undefined-name] undefined_letter_twice.nf:4:16: error: `ik` is not defined: it is no tensor, number or index of this statement
  Z[i, k] = X[i, ik]
                 ^~
note: as an index it stands on the left, or in a reduction: `sum[ik] ...`
