# %%
input X[3]
Y[i] = (X[i] + 1

# %%
Z[i] = X[i]
# ---- diagnostics
[unclosed-bracket] unclosed_bracket_cell.nf:3:8: error: `(` is not closed before its cell ends
  Y[i] = (X[i] + 1
         ^
unclosed_bracket_cell.nf:5:1: note: expected `)` before this
  # %%
  ^~~~
