let N = 9
input X[N]
Y[p] = sum[r] X[p + r]
# ---- diagnostics
[ambiguous-extent] ambiguous_extent_let.nf:3:3: error: the extent of index `p` can't be inferred: write it behind the name, as in `p: 8`
  Y[p] = sum[r] X[p + r]
    ^
ambiguous_extent_let.nf:3:17: note: `p + r` leaves `p` and `r` open
  Y[p] = sum[r] X[p + r]
                  ^~~~~
[ambiguous-extent] ambiguous_extent_let.nf:3:12: error: the extent of index `r` can't be inferred: write `r: N`, if it runs over all that is read
  Y[p] = sum[r] X[p + r]
             ^
ambiguous_extent_let.nf:3:17: note: `p + r` does not fix it
  Y[p] = sum[r] X[p + r]
                  ^~~~~
help: write `sum[r: N]`
fix: write `sum[r: N]`: `r` becomes `r: N`
