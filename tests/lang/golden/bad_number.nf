let N = 12abc
let M = 1.2.3
let E = 1e
# ---- diagnostics
[bad-number] bad_number.nf:1:9: error: `12abc` is no number
  let N = 12abc
          ^~~~~
[bad-number] bad_number.nf:2:9: error: `1.2.3` is no number
  let M = 1.2.3
          ^~~~~
[bad-number] bad_number.nf:3:9: error: `1e` is no number
  let E = 1e
          ^~
