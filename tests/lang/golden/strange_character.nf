let N = 3
Y = N § 2
# ---- diagnostics
[foreign-name] strange_character.nf:2:7: error: `§` is no name: names are made of letters a to z, digits, `_` and Greek letters
  Y = N § 2
        ^
note: give it a name of these letters: only a tensor may have another, in backquotes
