input A[4] = 1
input M[4, 4] = 1
input t[4] : i32 = 0
def g(x, K) = sum[i: K] x[i]
Y[i] = g(A, t[i])
# ---- diagnostics
[not-a-constant] one_line_extent_of_data.nf:4:22: error: `K` is a value of the operator that this is written into, here stands a number known while compiling
  def g(x, K) = sum[i: K] x[i]
                       ^
one_line_extent_of_data.nf:5:8: note: in this call of `g`
  Y[i] = g(A, t[i])
         ^
