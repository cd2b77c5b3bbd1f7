input A[4] = 1
h[i] = f64(A[i])
for t in 0..3 { h[i] = A[i] * 2 }
Y = h
# ---- diagnostics
[shape-mismatch] loop_type.nf:3:5: error: `h` is carried from step to step as f64 [4], the body makes it f32 [4]
  for t in 0..3 { h[i] = A[i] * 2 }
      ^
loop_type.nf:3:17: note: make both of one type: start it as `h[...] : f32 = ...`, or write `f64(...)` around its new value
  for t in 0..3 { h[i] = A[i] * 2 }
                  ^
