const c[3] = npy("c.npy)
# ---- diagnostics
[unclosed-quote] unclosed_string.nf:1:18: error: this string has no closing `"` on its line
  const c[3] = npy("c.npy)
                   ^~~~~~~
