let N = 3
Y = N § 2
# ---- diagnostics
[unexpected-character] strange_character.nf:2:7: error: `§` means nothing here
  Y = N § 2
        ^
