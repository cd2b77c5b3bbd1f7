let sum = 3
# ---- diagnostics
[reserved-name] reserved_name.nf:1:5: error: `sum` is reserved and can't be a name
  let sum = 3
      ^~~
