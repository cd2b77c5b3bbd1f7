input X[3]
L = sum(X)
# ---- diagnostics
[reduction-call] reduction_call.nf:2:5: error: `sum` is a reduction: write its indices, `sum[i] X[i]`
  L = sum(X)
      ^~~
note: `sum[...] X[...]` reduces over all axes
