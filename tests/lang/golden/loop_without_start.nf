input X[4]
for t in 0..4 { h = h + X[t] }
# ---- diagnostics
[undefined-name] loop_without_start.nf:2:21: error: `h` is not defined: it is no tensor, number or index of this statement
  for t in 0..4 { h = h + X[t] }
                      ^
note: what a step hands on to the next has a value before the first: give `h` one before the loop, as in `h = 0`
