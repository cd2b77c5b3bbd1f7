data D = digits
input X[64, 8, 8] = batch D[:, 0..63]
# ---- diagnostics
[batch-shape] batch_columns.nf:2:32: error: a row of `X` has 64 elements, the columns are 63
  input X[64, 8, 8] = batch D[:, 0..63]
                                 ^~~~~
