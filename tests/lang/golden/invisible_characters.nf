let K = 3​
input X[⁠K] = normal(0, 1)  # 👩‍🔬
Y[i] = X﻿[i]
# ---- diagnostics
[unexpected-character] invisible_characters.nf:1:10: error: an invisible character, U+200B, means nothing here
  let K = 3​
           ^
help: leave it out
fix: leave it out: `​` becomes ``
[unexpected-character] invisible_characters.nf:2:9: error: an invisible character, U+2060, means nothing here
  input X[⁠K] = normal(0, 1)  # 👩‍🔬
          ^
help: leave it out
fix: leave it out: `⁠` becomes ``
[unexpected-character] invisible_characters.nf:3:9: error: an invisible character, U+FEFF, means nothing here
  Y[i] = X﻿[i]
          ^
help: leave it out
fix: leave it out: `﻿` becomes ``
