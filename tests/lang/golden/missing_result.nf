def f(X[N]) -> Y { Z[n] = X[n] }
input X[3]
W = f(X)
# ---- diagnostics
[missing-result] missing_result.nf:1:16: error: `f` does not define its result `Y`
  def f(X[N]) -> Y { Z[n] = X[n] }
                 ^
missing_result.nf:3:5: note: in this call of `f`
  W = f(X)
      ^
