input D[3]
input X[64, 1] = batch D[:, 0]
# ---- diagnostics
[not-data] batch_of_no_data.nf:2:24: error: `D` is no data set: `data D = csv("...")` makes one
  input X[64, 1] = batch D[:, 0]
                         ^
