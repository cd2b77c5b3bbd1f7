inptu X[3]
LET N = 3
Y[i] = X[i] * N
# ---- diagnostics
[unknown-statement] statement_misspelt.nf:1:1: error: `inptu` begins no statement
  inptu X[3]
  ^~~~~
help: write `input`
fix: write `input`: `inptu` becomes `input`
[unknown-statement] statement_misspelt.nf:2:1: error: `LET` begins no statement
  LET N = 3
  ^~~
help: write `let`
fix: write `let`: `LET` becomes `let`
