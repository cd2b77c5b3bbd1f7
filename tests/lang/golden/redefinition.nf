input X[3]
X[i: 3] = 1
# ---- diagnostics
[redefinition] redefinition.nf:2:1: error: `X` is defined already
  X[i: 3] = 1
  ^
redefinition.nf:1:7: note: it was defined here
  input X[3]
        ^
note: a name is given once: call the new value otherwise
