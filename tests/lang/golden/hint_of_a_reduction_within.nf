input B[4, 8]
A[i, j] = B[i, j] * 2
P[i] = exp(sum[j] A[i, j])
hint split A, P
hint split A, P.sum
# ---- diagnostics
[bad-hint] hint_of_a_reduction_within.nf:4:12: warning: `P` reads `A` within `P.sum`, an operator of its own
  hint split A, P
             ^~~~
note: a hint names a tensor and one that reads it
help: name `P.sum`
fix: name `P.sum`: `P` becomes `P.sum`
