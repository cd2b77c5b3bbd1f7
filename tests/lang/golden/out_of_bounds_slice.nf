input X[3, 4]
Y = softmax(X[_, 4])
# ---- diagnostics
[index-out-of-bounds] out_of_bounds_slice.nf:2:18: error: index `4` of `X`, axis 1, runs over 4..4, valid is 0..3
  Y = softmax(X[_, 4])
                   ^
