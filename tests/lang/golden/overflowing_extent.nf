input X[4611686018427387904, 4]
# ---- diagnostics
[extent-overflow] overflowing_extent.nf:1:7: error: `X` would have 4611686018427387904 x 4 elements: more than 64 bits count
  input X[4611686018427387904, 4]
        ^
