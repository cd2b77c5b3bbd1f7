param w = 1
loss L = w * w
repeat 1000 {
  repeat 1000 {
    Y = w * 2
  }
}
# ---- diagnostics
[too-large] nested_repeat.nf:4:3: error: `repeat` unrolls: with the repetitions around it these are 1000000 copies, more than 400000
    repeat 1000 {
    ^~~~~~~~~~~~~
