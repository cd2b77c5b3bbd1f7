input X[4]
h = 0
for q in 0..9 { h = h + X[q] }
# ---- diagnostics
