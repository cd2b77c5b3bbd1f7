input x
if x > 0 { Y = x * 2 }
# ---- diagnostics
[not-a-constant] not_a_constant_if.nf:2:4: error: `if` takes a condition known while compiling; between numbers choose with `select(c, a, b)`
  if x > 0 { Y = x * 2 }
     ^~~~~
