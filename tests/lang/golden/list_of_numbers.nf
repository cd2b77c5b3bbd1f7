input X[2, 3] = [[1, 2, 3], [4, 5, 6]]
let v = [1, 2]
# ---- diagnostics
[expected] list_of_numbers.nf:1:17: error: expected an expression, found `[`
  input X[2, 3] = [[1, 2, 3], [4, 5, 6]]
                  ^
note: numbers are not listed in the text: `input X[2, 3] = csv("x.csv")` reads them from a file, and `Y[i: 2, j: 3] = 3*i + j` makes them of indices
[expected] list_of_numbers.nf:2:9: error: expected an expression, found `[`
  let v = [1, 2]
          ^
note: numbers are not listed in the text: `input X[2, 3] = csv("x.csv")` reads them from a file, and `Y[i: 2, j: 3] = 3*i + j` makes them of indices
