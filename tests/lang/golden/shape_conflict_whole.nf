input A[5, 2]
input B[5, 3]
Y = A + B
# ---- diagnostics
[extent-conflict] shape_conflict_whole.nf:3:9: error: these tensors have different shapes: 2 (axis 1 of `A`) and 3 (axis 1 of `B`)
  Y = A + B
          ^
shape_conflict_whole.nf:3:5: note: the first place
  Y = A + B
      ^
