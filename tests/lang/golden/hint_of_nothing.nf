input X[3] = 1
Yonder[i] = X[i]*2
Zest[i] = Yonder[i]+1
hint fuse Yonder, Q
show Zest
# ---- diagnostics
[undefined-name] hint_of_nothing.nf:4:19: error: `Q` is not defined
  hint fuse Yonder, Q
                    ^
note: tensors that operators make: Yonder Zest
