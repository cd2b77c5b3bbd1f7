input t[3]
const h[3] = 0
for t in 0..3 { h[i] = h[i] + 1 }
# ---- diagnostics
[shadowing] shadowing_counter.nf:3:5: error: the counter `t` would hide the tensor of that name
  for t in 0..3 { h[i] = h[i] + 1 }
      ^
shadowing_counter.nf:1:7: note: `t` is named here
  input t[3]
        ^
