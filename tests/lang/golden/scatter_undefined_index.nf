input X[2, 8, 3]
Y[n, c: 4, 3*i + r: 15] += X[n, 2*(c//2) + ci, i] * f32(r)
# ---- diagnostics
[undefined-name] scatter_undefined_index.nf:2:44: error: `ci` is not defined: it is no tensor, number or index of this statement
  Y[n, c: 4, 3*i + r: 15] += X[n, 2*(c//2) + ci, i] * f32(r)
                                             ^~
note: as an index it stands on the left, or in a reduction: `sum[ci: N] ...`, or all are listed: `scatter[ci: N, ...]`
