input A[4] = 1
input M[4, 4] = 1
def g(x) = 2*softmax(x)*x[0]
Y[i] = sum[j] g(M[i, _])
# ---- diagnostics
[slice-of-operator] one_line_slice_to_a_block.nf:3:22: error: `x` is a slice at an index of the operator that this is written into: no tensor is made from it
  def g(x) = 2*softmax(x)*x[0]
                       ^
one_line_slice_to_a_block.nf:4:15: note: in this call of `g`
  Y[i] = sum[j] g(M[i, _])
                ^
note: make the tensor for all of them first, as in `T[i, ...] = ...`, and take its slice `T[i, _]`
