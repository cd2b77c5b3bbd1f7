input A[4] = 1
input M[4, 3] = 1
Y[i] = 1 if A[i] > 0 else 2
Z[i] = A[i] > 0 ? 1 : 2
U = M.T
# ---- diagnostics
[expected] choice_of_python.nf:3:10: error: expected the end of the statement, found `if`
  Y[i] = 1 if A[i] > 0 else 2
           ^~
note: one of two values is chosen with `select(condition, a, b)`
[unexpected-character] choice_of_python.nf:4:17: error: `?` means nothing here
  Z[i] = A[i] > 0 ? 1 : 2
                  ^
note: one of two values is chosen with `select(condition, a, b)`
[undefined-name] choice_of_python.nf:5:5: error: `M.T` is not defined
  U = M.T
      ^~~
note: a transpose is written with indices: `Y[i, j] = M[j, i]`
