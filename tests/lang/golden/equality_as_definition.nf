input X[3]
Y == X
# ---- diagnostics
[expected] equality_as_definition.nf:2:3: error: `==` compares; a tensor is defined with `=`
  Y == X
    ^~
help: write `=`
fix: write `=`: `==` becomes `=`
