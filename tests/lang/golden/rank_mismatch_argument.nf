input X[3, 4]
Y = conv2d(X, 8, 3)
# ---- diagnostics
[rank-mismatch] rank_mismatch_argument.nf:2:12: error: parameter `X` of `conv2d` has rank 4, `X` has rank 2
  Y = conv2d(X, 8, 3)
             ^
std/conv.nf:7:5: note: conv2d(X[N, C, H, W], K, R; stride = 1, pad = 0, dilation = 1, groups = 1, bias = 0) -> Y
  def conv2d(X[N, C, H, W], K, R; stride = 1, pad = 0, dilation = 1, groups = 1, bias = 0) -> Y {
      ^~~~~~
