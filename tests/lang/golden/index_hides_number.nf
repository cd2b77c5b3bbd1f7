let i = 3
input X[3] = 1
Y[i] = X[i]*2
S = sum[i] X[i]
# ---- diagnostics
[shadowing] index_hides_number.nf:3:3: error: index `i` would hide the number of that name
  Y[i] = X[i]*2
    ^
index_hides_number.nf:1:5: note: `i` is named here: one of the two takes another name
  let i = 3
      ^
[shadowing] index_hides_number.nf:4:9: error: index `i` would hide the number of that name
  S = sum[i] X[i]
          ^
index_hides_number.nf:1:5: note: `i` is named here: one of the two takes another name
  let i = 3
      ^
