let k = 3
input X[3, 3]
Y[i] = sum[k] X[i, k]
# ---- diagnostics
[shadowing] shadowing_number.nf:3:12: error: index `k` would hide the number of that name
  Y[i] = sum[k] X[i, k]
             ^
shadowing_number.nf:1:5: note: `k` is named here: one of the two takes another name
  let k = 3
      ^
