input A[5]
input B[7]
Y[i] = A[i] + B[i]
# ---- diagnostics
[extent-conflict] extent_conflict.nf:3:17: error: index `i` meets two extents: 5 (axis 0 of `A`) and 7 (axis 0 of `B`)
  Y[i] = A[i] + B[i]
                  ^
extent_conflict.nf:3:10: note: the first place
  Y[i] = A[i] + B[i]
           ^
help: write `Y[i: 5]`
fix: write `Y[i: 5]`: `i` becomes `i: 5`
