input Q[2, 1, 5, 8]
input K[2, 1, 5, 9]
Y = attention(Q, K, K)
# ---- diagnostics
[shape-mismatch] shape_mismatch_argument.nf:3:18: error: parameter `K` of `attention` needs extent 8 on axis 3, `K` has 9
  Y = attention(Q, K, K)
                   ^
std/attention.nf:6:5: note: attention(Q[B, H, T, D], K[B, H, S, D], V[B, H, S, E]; causal = 0) -> Y
  def attention(Q[B, H, T, D], K[B, H, S, D], V[B, H, S, E]; causal = 0) -> Y {
      ^~~~~~~~~
