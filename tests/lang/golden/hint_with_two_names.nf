input x[5]
Y[i] = x[i]^2
S = sum[i] Y[i]
L = S
hint split S, L
# ---- diagnostics
[bad-hint] hint_with_two_names.nf:5:12: error: `S` and `L` are one tensor, `S`: a hint names a tensor and one that reads it
  hint split S, L
             ^~~~
