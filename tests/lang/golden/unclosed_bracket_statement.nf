input B[4, 8]
Y[i] = sum[j] (B[i, j] +
Z[i] = B[i, 0] * 2
V[i] = min(B[i, 0],
U[i] = Z[i] + Y[i]
W[i] = B[
T[i] = U[i] + V[i] + W[i]
S[i] = (
  T[i]
  + min(
    T[i], Z[i]))
show T, S
# ---- diagnostics
[expected] unclosed_bracket_statement.nf:2:25: error: expected an expression, found the end of the line
  Y[i] = sum[j] (B[i, j] +
                          ^
unclosed_bracket_statement.nf:3:1: note: a statement begins here, and a bracket before it is still open
  Z[i] = B[i, 0] * 2
  ^
[expected] unclosed_bracket_statement.nf:4:20: error: expected an expression, found the end of the line
  V[i] = min(B[i, 0],
                     ^
unclosed_bracket_statement.nf:5:1: note: a statement begins here, and a bracket before it is still open
  U[i] = Z[i] + Y[i]
  ^
[expected] unclosed_bracket_statement.nf:6:10: error: expected an expression, found the end of the line
  W[i] = B[
           ^
unclosed_bracket_statement.nf:7:1: note: a statement begins here, and a bracket before it is still open
  T[i] = U[i] + V[i] + W[i]
  ^
