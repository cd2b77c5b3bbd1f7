input X[4]
for t in 0..4 { h = h + X[t] }
# ---- diagnostics
