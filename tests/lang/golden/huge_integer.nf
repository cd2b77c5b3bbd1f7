let N = 99999999999999999999
# ---- diagnostics
[bad-number] huge_integer.nf:1:9: error: `99999999999999999999` does not fit a 64-bit integer
  let N = 99999999999999999999
          ^~~~~~~~~~~~~~~~~~~~
