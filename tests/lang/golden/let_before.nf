let a = b, b = 2
# ---- diagnostics
[used-before-definition] let_before.nf:1:9: error: `b` is used before it is defined
  let a = b, b = 2
          ^
let_before.nf:1:12: note: it is defined here
  let a = b, b = 2
             ^
