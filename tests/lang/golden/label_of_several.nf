const X[3] = 1
Y[i] = X[i] * 2
show Y as "twice"
show X, Y as "both"
# ---- diagnostics
[label-of-several] label_of_several.nf:4:14: error: `as` names one value, these are 2
  show X, Y as "both"
               ^~~~~~
note: give each its own `show`
