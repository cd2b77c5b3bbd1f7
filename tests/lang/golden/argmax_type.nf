input X[3]
Y : f32 = argmax[i] X[i]
# ---- diagnostics
[type-mismatch] argmax_type.nf:2:1: error: `argmax` gives positions: the result is i32
  Y : f32 = argmax[i] X[i]
  ^
