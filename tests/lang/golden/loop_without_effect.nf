input X[4, 3]
for t in 0..4 { Y[i] = X[t, i] }
# ---- diagnostics
[no-effect] loop_without_effect.nf:2:5: error: this loop carries nothing and collects nothing
  for t in 0..4 { Y[i] = X[t, i] }
      ^
note: name a tensor before the loop and define it again inside, or `stack Hs = h`
