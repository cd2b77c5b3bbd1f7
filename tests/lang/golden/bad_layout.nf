param W[3, 4] layout(0, 0) = zeros()
# ---- diagnostics
[bad-layout] bad_layout.nf:1:7: error: the layout of `W` must name each of its 2 axes once
  param W[3, 4] layout(0, 0) = zeros()
        ^
