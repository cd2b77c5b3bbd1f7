input X[3]
X[i] <- X[i] + 1
# ---- diagnostics
[not-updatable] update_of_input.nf:2:1: error: `<-` updates a `state` or a `param`, `X` is neither
  X[i] <- X[i] + 1
  ^~~~
