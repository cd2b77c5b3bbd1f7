input idx[3] : i32
T[idx[n]] += 1
# ---- diagnostics
[ambiguous-extent] scatter_extent.nf:2:3: error: how many places `idx[n]` chooses from can't be inferred: write their number after it
  T[idx[n]] += 1
    ^~~~~~
note: the places are numbered by the data: `T[idx[n]: 100] += ...` has 100
