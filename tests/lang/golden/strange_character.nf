let N = 3
Y = N § 2
# ---- diagnostics
[foreign-name] strange_character.nf:2:7: error: `§` is no name: names are made of letters a to z, digits, `_` and Greek letters
  Y = N § 2
        ^
help: a tensor may have it in backquotes: ``§``
fix: a tensor may have it in backquotes: `§` becomes ``§``
