input X[3]
X
# ---- diagnostics
[no-effect] no_effect.nf:2:1: error: `X` alone does nothing
  X
  ^
help: show it: `show X`
fix: show it: `X` becomes `show X`
