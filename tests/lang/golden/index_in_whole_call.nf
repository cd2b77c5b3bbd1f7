let B = 2
let T = 3
input S[B, T, T]
P[b, i, j] = softmax(select(j <= i, S[b, i, j], -inf))
Q[b, i, j] = softmax(S[b, i, j])[b, i, j]
# ---- diagnostics
[undefined-name] index_in_whole_call.nf:4:29: error: `j` is an index of this statement, and `softmax` takes whole tensors: no index of the statement means anything in its arguments
  P[b, i, j] = softmax(select(j <= i, S[b, i, j], -inf))
                              ^
note: name what it takes first, `A[b, i, j] = select(j <= i, S[b, i, j], -inf)`; then `softmax(A)[b, i, j]` reads the result
[undefined-name] index_in_whole_call.nf:5:24: error: `b` is an index of this statement, and `softmax` takes whole tensors: no index of the statement means anything in its arguments
  Q[b, i, j] = softmax(S[b, i, j])[b, i, j]
                         ^
note: name what it takes first, `A[b, i, j] = S[b, i, j]`; then `softmax(A)[b, i, j]` reads the result
