input X[3, 4]
Y = linear(X)
# ---- diagnostics
[wrong-arity] wrong_arity_function.nf:2:5: error: `linear` takes 2 arguments, here is 1
  Y = linear(X)
      ^~~~~~
std/linear.nf:7:5: note: linear(X[..., I], O) -> Y
  def linear(X[..., I], O) -> Y {
      ^~~~~~
