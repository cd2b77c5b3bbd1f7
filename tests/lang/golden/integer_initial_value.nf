input X[3] : i32 = 0.5
input Y[3] : i32 = 1e20
input Z[3] : i32 = -2147483648
# ---- diagnostics
[bad-initial-value] integer_initial_value.nf:1:20: error: `0.5` is no i32: whole numbers in -2147483648..2147483647
  input X[3] : i32 = 0.5
                     ^~~
[bad-initial-value] integer_initial_value.nf:2:20: error: `1e20` is no i32: whole numbers in -2147483648..2147483647
  input Y[3] : i32 = 1e20
                     ^~~~
