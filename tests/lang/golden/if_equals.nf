let X = 2
if X = 3 { let Y = 1 }
input a[3] = 1
Y[i] = select(X = 3, a[i], 0)
# ---- diagnostics
[expected] if_equals.nf:2:6: error: `=` gives a name to something: a condition compares with `==`
  if X = 3 { let Y = 1 }
       ^
help: write `==`
fix: write `==`: `=` becomes `==`
[positional-after-named] if_equals.nf:4:22: error: a plain argument can't follow a named one
  Y[i] = select(X = 3, a[i], 0)
                       ^~~~
if_equals.nf:4:15: note: two values are compared with `==`
  Y[i] = select(X = 3, a[i], 0)
                ^
