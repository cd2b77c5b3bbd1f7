input b[4]
input X[3, 4]
Y[b, n] = X[b, n] + b[n]
# ---- diagnostics
[shadowing] shadowing_tensor.nf:3:21: error: `b` is an index in this statement and can't be indexed
  Y[b, n] = X[b, n] + b[n]
                      ^
shadowing_tensor.nf:3:3: note: the tensor of that name is hidden by the index: rename one of them
  Y[b, n] = X[b, n] + b[n]
    ^
