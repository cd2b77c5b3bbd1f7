let x = log(-1)
let y = exp(1000)
let z = (-8)^(1/3), w = 10^400
let fine = -inf
input A[3]
B[i] = A[i] * sqrt(-2)
# ---- diagnostics
[not-finite] not_a_number.nf:1:9: error: `log(-1)` is not a number
  let x = log(-1)
          ^~~~~~~
note: where that is meant, write `nan` or `inf`
[not-finite] not_a_number.nf:2:9: error: `exp(1000)` is too large for a double
  let y = exp(1000)
          ^~~~~~~~~
note: where that is meant, write `nan` or `inf`
[not-finite] not_a_number.nf:3:9: error: `(-8)^(1/3)` is not a number
  let z = (-8)^(1/3), w = 10^400
          ^~~~~~~~~~
note: where that is meant, write `nan` or `inf`
[not-finite] not_a_number.nf:3:25: error: `10^400` is too large for a double
  let z = (-8)^(1/3), w = 10^400
                          ^~~~~~
note: where that is meant, write `nan` or `inf`
[not-finite] not_a_number.nf:6:15: error: `sqrt(-2)` is not a number
  B[i] = A[i] * sqrt(-2)
                ^~~~~~~~
note: where that is meant, write `nan` or `inf`
