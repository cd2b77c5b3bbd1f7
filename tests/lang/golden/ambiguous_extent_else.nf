input X[9]
Y[p] = X[p - 1] else 0
# ---- diagnostics
[ambiguous-extent] ambiguous_extent_else.nf:2:3: error: the extent of index `p` can't be inferred: write it behind the name, as in `p: 8`
  Y[p] = X[p - 1] else 0
    ^
ambiguous_extent_else.nf:2:10: note: an access with `else` bounds it by nothing
  Y[p] = X[p - 1] else 0
           ^~~~~
