input X[3
param W[3] = zeros()
Y[i] = W[i]
# ---- diagnostics
[unclosed-bracket] unclosed_bracket_statement.nf:1:8: error: `[` is not closed
  input X[3
         ^
unclosed_bracket_statement.nf:2:1: note: expected `]` before this
  param W[3] = zeros()
  ^~~~~
