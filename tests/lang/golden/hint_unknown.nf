input X[3]
Y[i] = X[i]
hint fuse Y, Q
# ---- diagnostics
[undefined-name] hint_unknown.nf:3:14: error: `Q` is not defined
  hint fuse Y, Q
               ^
note: tensors that operators make: Y
