input A[4] = 1
input M[4, 4] = 1
def g(x[3]) = x*2
Y = g(A)
Z = g(M)
# ---- diagnostics
[shape-mismatch] one_line_shape.nf:4:7: error: parameter `x` of `g` needs extent 3 on axis 0, `A` has 4
  Y = g(A)
        ^
one_line_shape.nf:3:5: note: g(x[3]) = x*2
  def g(x[3]) = x*2
      ^
[rank-mismatch] one_line_shape.nf:5:7: error: parameter `x` of `g` has rank 1, `M` has rank 2
  Z = g(M)
        ^
one_line_shape.nf:3:5: note: g(x[3]) = x*2
  def g(x[3]) = x*2
      ^
