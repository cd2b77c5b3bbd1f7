def f(x) = x
def f(y) = y + 1
# ---- diagnostics
[redefinition] redefined_function.nf:2:5: error: function `f` is defined already
  def f(y) = y + 1
      ^
redefined_function.nf:1:5: note: it was defined here
  def f(x) = x
      ^
