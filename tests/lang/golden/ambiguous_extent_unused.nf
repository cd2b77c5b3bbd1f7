Y[i] = 1
# ---- diagnostics
[ambiguous-extent] ambiguous_extent_unused.nf:1:3: error: the extent of index `i` can't be inferred: write `i: N`
  Y[i] = 1
    ^
note: no access uses it alone
