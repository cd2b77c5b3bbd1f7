input y[3] : i32
loss L = mean[i] y[i]
show d(L)/d(y)
# ---- diagnostics
[not-differentiable] derivative_of_integers.nf:3:6: error: `y` holds integers: it has no derivative
  show d(L)/d(y)
       ^~~~~~~~~
