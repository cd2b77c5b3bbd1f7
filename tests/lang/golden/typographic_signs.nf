input x
y = x − 1
z = select(x ≤ 1 && x > 0, 1, 0)
data D = csv(“x.csv”)
# ---- diagnostics
[unexpected-character] typographic_signs.nf:2:7: error: `−` means nothing here
  y = x − 1
        ^
help: write `-`
fix: write `-`: `−` becomes `-`
[unexpected-character] typographic_signs.nf:3:14: error: `≤` means nothing here
  z = select(x ≤ 1 && x > 0, 1, 0)
               ^
help: write `<=`
fix: write `<=`: `≤` becomes `<=`
[unexpected-character] typographic_signs.nf:3:18: error: `&&` means nothing here
  z = select(x ≤ 1 && x > 0, 1, 0)
                   ^~
help: write `and`
fix: write `and`: `&&` becomes `and`
[unexpected-character] typographic_signs.nf:4:14: error: `“` means nothing here
  data D = csv(“x.csv”)
               ^
help: write `"`
fix: write `"`: `“` becomes `"`
[unexpected-character] typographic_signs.nf:4:20: error: `”` means nothing here
  data D = csv(“x.csv”)
                     ^
help: write `"`
fix: write `"`: `”` becomes `"`
