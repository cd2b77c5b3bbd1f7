let B = 3
N = B
# ---- diagnostics
[number-as-tensor] number_as_tensor.nf:2:1: error: `N` would be a number: numbers are named with `let`
  N = B
  ^~~~~
help: write `let`
fix: write `let`: `` becomes `let `
