let N = 1e999
# ---- diagnostics
[bad-number] huge_real.nf:1:9: error: `1e999` is too large for a double
  let N = 1e999
          ^~~~~
