input X[3, 4]
input Z[3]
Y[...] = X[...] + Z[...]
# ---- diagnostics
[rank-mismatch] ellipsis_rank.nf:3:19: error: `...` stands for 2 indices and `Z` has 1 left
  Y[...] = X[...] + Z[...]
                    ^~~~~~
ellipsis_rank.nf:3:3: note: the rank was fixed here
  Y[...] = X[...] + Z[...]
    ^~~
