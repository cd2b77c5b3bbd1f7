def f(X[N]) -> Y { Y = f(X) }
input X[3]
Z = f(X)
# ---- diagnostics
[recursive-function] recursive_function.nf:1:24: error: `f` calls itself: functions are expanded, so they can't
  def f(X[N]) -> Y { Y = f(X) }
                         ^
recursive_function.nf:1:24: note: in this call of `f`
  def f(X[N]) -> Y { Y = f(X) }
                         ^
