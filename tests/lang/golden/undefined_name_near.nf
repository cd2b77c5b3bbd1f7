input Input[3]
Y[i] = Inptu[i]
# ---- diagnostics
[undefined-name] undefined_name_near.nf:2:8: error: `Inptu` is not defined
  Y[i] = Inptu[i]
         ^~~~~
help: write `Input`
fix: write `Input`: `Inptu` becomes `Input`
