const h[3] = 0
let T = 0
for t in 0..T { h[i] = h[i] + 1 }
# ---- diagnostics
[zero-extent] loop_empty.nf:3:10: error: this loop never runs: 0..0 is empty
  for t in 0..T { h[i] = h[i] + 1 }
           ^~~~
