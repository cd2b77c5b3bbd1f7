input X[3] = 1
Y[i] = X[i].exp()
Z = X.sum()
# ---- diagnostics
[unexpected-character] method_call.nf:2:12: error: `.` means nothing here
  Y[i] = X[i].exp()
             ^
note: a function stands before what it takes: `exp(...)`
[undefined-function] method_call.nf:3:5: error: there is no function `X.sum`
  Z = X.sum()
      ^~~~~
note: tensors have no functions of their own: it is `sum[i] X[i]`
