param W[3] = uniform(1, -1)
# ---- diagnostics
[empty-range] initializer_range.nf:1:14: error: `uniform` takes the lower bound first
  param W[3] = uniform(1, -1)
               ^~~~~~~~~~~~~~
