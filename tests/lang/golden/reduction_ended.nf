input A[4] = zeros()
input B[4] = zeros()
L = sum[i] A[i] + max(B[i], 0)
# ---- diagnostics
[undefined-name] reduction_ended.nf:3:25: error: `i` is not defined: it is no tensor, number or index of this statement
  L = sum[i] A[i] + max(B[i], 0)
                          ^
reduction_ended.nf:3:9: note: the reduction over `i` ends before this: parentheses take in all of a sum, `sum[i] (... + ...)`
  L = sum[i] A[i] + max(B[i], 0)
          ^
