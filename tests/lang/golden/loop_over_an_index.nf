input X[8]
for i in 0..8 { Y[i] = X[i] }
# ---- diagnostics
[shadowing] loop_over_an_index.nf:2:19: error: index `i` would hide the counter of the loop
  for i in 0..8 { Y[i] = X[i] }
                    ^
loop_over_an_index.nf:2:5: note: `i` is named here
  for i in 0..8 { Y[i] = X[i] }
      ^
note: an index runs by itself: what is computed for each element needs no `for`
