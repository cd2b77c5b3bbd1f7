input X[3] : float
input y[3] : int
input z[3] : string
# ---- diagnostics
[unknown-type] type_of_python.nf:1:14: error: expected a type: f32, f16, bf16, f64 or i32, found `float`
  input X[3] : float
               ^~~~~
help: write `f32`
fix: write `f32`: `float` becomes `f32`
[unknown-type] type_of_python.nf:2:14: error: expected a type: f32, f16, bf16, f64 or i32, found `int`
  input y[3] : int
               ^~~
help: write `i32`
fix: write `i32`: `int` becomes `i32`
[unknown-type] type_of_python.nf:3:14: error: expected a type: f32, f16, bf16, f64 or i32, found `string`
  input z[3] : string
               ^~~~~~
