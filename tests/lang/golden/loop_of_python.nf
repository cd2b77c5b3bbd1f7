input X[3]
for i in range(3):
  Y[i] = X[i]
# ---- diagnostics
[expected] loop_of_python.nf:2:18: error: expected `..` and the end of the range, as in `for t in 0..T`, found `:`
  for i in range(3):
                   ^
