def scaled(X[...]; by) -> Y { Y[...] = X[...] * by }
input X[3]
Z = scaled(X)
# ---- diagnostics
[missing-option] missing_option.nf:3:5: error: `scaled` needs `by=`
  Z = scaled(X)
      ^~~~~~
missing_option.nf:1:5: note: scaled(X[...]; by) -> Y
  def scaled(X[...]; by) -> Y { Y[...] = X[...] * by }
      ^~~~~~
