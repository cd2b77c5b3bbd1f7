input X[3] : f8
# ---- diagnostics
[unknown-type] unknown_type.nf:1:14: error: expected a type: f32, f16, bf16, f64 or i32, found `f8`
  input X[3] : f8
               ^~
