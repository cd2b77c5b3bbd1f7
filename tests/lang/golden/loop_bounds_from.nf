input X[4]
h = 0
for q in 1..9 { h = h + X[2*q - 2] }
# ---- diagnostics
