input X[3]
x
# ---- diagnostics
[no-effect] no_effect_unknown.nf:2:1: error: `x` alone does nothing
  x
  ^
