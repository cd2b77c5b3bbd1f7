input X[3, 4]
Y = lineer(X, 4)
# ---- diagnostics
[undefined-function] undefined_function.nf:2:5: error: there is no function `lineer`
  Y = lineer(X, 4)
      ^~~~~~
help: write `linear`
fix: write `linear`: `lineer` becomes `linear`
