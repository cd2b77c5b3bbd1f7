let N = 3
let ÿþ = 4
input X[N]
# ---- diagnostics
[invalid-utf8] invalid_utf8.nf:2:5: error: these bytes are no UTF-8 text
  let ï¿½ï¿½ = 4
      ^~
