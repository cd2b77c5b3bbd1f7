const h[3] = 0
for t in 0..3 { h[i: 2] = h[i] }
# ---- diagnostics
[shape-mismatch] loop_shape.nf:2:5: error: `h` is carried from step to step as f32 [3], the body makes it f32 [2]
  for t in 0..3 { h[i: 2] = h[i] }
      ^
loop_shape.nf:2:17: note: what a step hands on has the shape of what it took: start with [2], make it [3] here, or give what is made here a name of its own
  for t in 0..3 { h[i: 2] = h[i] }
                  ^
