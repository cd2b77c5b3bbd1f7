# %%
const h[3] = 0
for t in 0..3 {
  h[i] = h[i] + 1

# %%
input X[3]
# ---- diagnostics
[unclosed-bracket] unclosed_brace.nf:3:15: error: `{` is not closed before its cell ends
  for t in 0..3 {
                ^
