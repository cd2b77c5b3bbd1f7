input A[4] = 1
input M[4, 4] = 1
def g(x[N]) = sum[i] x[i]*N
Y[i] = g(A[i])
Z[i] = g(2*M[i, _])
U[i] = g(M[i, _])
# ---- diagnostics
[not-a-tensor] one_line_at_an_index.nf:4:10: error: `x` of `g` takes a whole tensor; `A[i]` depends on `i`, which only this operator knows
  Y[i] = g(A[i])
           ^~~~
note: a part of a tensor at an index is a slice, `T[i, _]`; what is calculated is made a tensor first
one_line_at_an_index.nf:3:5: note: g(x[N]) = sum[i] x[i]*N
  def g(x[N]) = sum[i] x[i]*N
      ^
[not-a-tensor] one_line_at_an_index.nf:5:10: error: `x` of `g` takes a whole tensor; `2*M[i, _]` depends on `i`, which only this operator knows
  Z[i] = g(2*M[i, _])
           ^~~~~~~~~
note: a part of a tensor at an index is a slice, `T[i, _]`; what is calculated is made a tensor first
one_line_at_an_index.nf:3:5: note: g(x[N]) = sum[i] x[i]*N
  def g(x[N]) = sum[i] x[i]*N
      ^
