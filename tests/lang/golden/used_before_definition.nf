Y[i] = X[i]
input X[3]
# ---- diagnostics
[used-before-definition] used_before_definition.nf:1:8: error: `X` is used before it is defined
  Y[i] = X[i]
         ^
used_before_definition.nf:2:7: note: it is defined here
  input X[3]
        ^
