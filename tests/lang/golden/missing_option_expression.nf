input A[3] = 1
def g(x; k) = x*k
Y = g(A)
Z[i] = g(A[i]) + 1
# ---- diagnostics
[missing-option] missing_option_expression.nf:3:5: error: `g` needs `k=`
  Y = g(A)
      ^
missing_option_expression.nf:2:5: note: g(x; k) = x*k
  def g(x; k) = x*k
      ^
[missing-option] missing_option_expression.nf:4:8: error: `g` needs `k=`
  Z[i] = g(A[i]) + 1
         ^
missing_option_expression.nf:2:5: note: g(x; k) = x*k
  def g(x; k) = x*k
      ^
