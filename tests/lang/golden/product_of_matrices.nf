input A[3, 4]
input B[4, 5]
C = A @ B
# ---- diagnostics
[expected] product_of_matrices.nf:3:7: error: expected the end of the statement, found `@`
  C = A @ B
        ^
note: a product of matrices is written `C[i, j] = sum[k] A[i, k] * B[k, j]`
