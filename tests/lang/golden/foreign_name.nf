input größe[3]
input `höhe`[3]
Y[i] = `höhe`[i] + größe[i]
# ---- diagnostics
[foreign-name] foreign_name.nf:1:7: error: `größe` is no name: names are made of letters a to z, digits, `_` and Greek letters
  input größe[3]
        ^~~~~
help: a tensor may have it in backquotes: ``größe``
fix: a tensor may have it in backquotes: `größe` becomes ``größe``
[foreign-name] foreign_name.nf:3:20: error: `größe` is no name: names are made of letters a to z, digits, `_` and Greek letters
  Y[i] = `höhe`[i] + größe[i]
                     ^~~~~
help: a tensor may have it in backquotes: ``größe``
fix: a tensor may have it in backquotes: `größe` becomes ``größe``
