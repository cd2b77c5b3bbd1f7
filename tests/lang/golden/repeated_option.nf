input A[3] = 1
def g(x; k) = x*k
Y = g(A, k=2, k=3)
# ---- diagnostics
[redefinition] repeated_option.nf:3:15: error: `k` is given twice
  Y = g(A, k=2, k=3)
                ^
repeated_option.nf:3:10: note: it was given here
  Y = g(A, k=2, k=3)
           ^
