Y[i] = 1
# ---- diagnostics
[ambiguous-extent] ambiguous_extent_unused.nf:1:3: error: the extent of index `i` can't be inferred: write it behind the name, as in `i: 8`
  Y[i] = 1
    ^
note: no access uses it alone
