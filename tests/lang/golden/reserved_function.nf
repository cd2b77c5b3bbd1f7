def exp(x) = x
# ---- diagnostics
[reserved-name] reserved_function.nf:1:5: error: `exp` is a function of the language
  def exp(x) = x
      ^~~
