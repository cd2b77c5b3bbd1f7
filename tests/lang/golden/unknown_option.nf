input X[1, 3, 9, 9]
Y = conv2d(X, 8, 3, strides=2)
# ---- diagnostics
[unknown-option] unknown_option.nf:2:21: error: `conv2d` has no option `strides`
  Y = conv2d(X, 8, 3, strides=2)
                      ^~~~~~~
std/conv.nf:7:5: note: conv2d(X[N, C, H, W], K, R; stride = 1, pad = 0, dilation = 1, groups = 1, bias = 0) -> Y
  def conv2d(X[N, C, H, W], K, R; stride = 1, pad = 0, dilation = 1, groups = 1, bias = 0) -> Y {
      ^~~~~~
help: write `stride`
fix: write `stride`: `strides` becomes `stride`
