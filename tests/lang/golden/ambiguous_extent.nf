input X[9]
Y[p] = sum[r] X[p + r]
# ---- diagnostics
[ambiguous-extent] ambiguous_extent.nf:2:3: error: the extent of index `p` can't be inferred: write it behind the name, as in `p: 8`
  Y[p] = sum[r] X[p + r]
    ^
ambiguous_extent.nf:2:17: note: `p + r` leaves `p` and `r` open
  Y[p] = sum[r] X[p + r]
                  ^~~~~
[ambiguous-extent] ambiguous_extent.nf:2:12: error: the extent of index `r` can't be inferred: write `r: 9`, if it runs over all that is read
  Y[p] = sum[r] X[p + r]
             ^
ambiguous_extent.nf:2:17: note: `p + r` does not fix it
  Y[p] = sum[r] X[p + r]
                  ^~~~~
help: write `sum[r: 9]`
fix: write `sum[r: 9]`: `r` becomes `r: 9`
