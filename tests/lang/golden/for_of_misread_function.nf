def cell(x[N, I], h[N, I]) -> n {
  n[b, i] = tanh(x[b, i] + h[b, i)
}
input X[4, 3, 5]
H = 0 * X[0, _, _]
for t in 0..4 {
  H = cell(X[t, _, _], H)
  stack Hs = H
}
show H, Hs
# ---- diagnostics
[expected] for_of_misread_function.nf:2:34: error: expected `]` or a comma, found `)`
    n[b, i] = tanh(x[b, i] + h[b, i)
                                   ^
