input A[4] = 1
def g(x) = x*a where
Y = g(A)
# ---- diagnostics
[expected] where_at_the_end.nf:2:21: error: expected a name after `where`, found the end of the line
  def g(x) = x*a where
                      ^
