let N = 4611686018427387904
let M = N * 4
# ---- diagnostics
[index-overflow] overflowing_arithmetic.nf:2:9: error: this integer does not fit 64 bits
  let M = N * 4
          ^~~~~
