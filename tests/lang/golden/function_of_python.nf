input X[3] = 1
def f(x):
  return x*2
Y[i] = f(X[i])
# ---- diagnostics
[expected] function_of_python.nf:2:9: error: expected `{` and the body of the function, found `:`
  def f(x):
          ^
note: `def f(x) = x^2` is one expression, `def f(X[n]) -> Y { Y[i] = X[i]^2 }` a block
[unknown-statement] function_of_python.nf:3:3: error: `return` begins no statement
    return x*2
    ^~~~~~
note: a function gives what its head names: `def f(x) = x^2`, or `def f(X[n]) -> Y { Y[i] = X[i]^2 }`
