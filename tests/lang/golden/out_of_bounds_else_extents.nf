input A[1, 4, 29, 29]
param W[16, 4, 3, 3] = normal(0, 1)
Y[b,k,p,q] = sum[c,r,s] A[b, c+1, p*2+r, q*2+s] * W[k, c, r, s]
# ---- diagnostics
[index-out-of-bounds] out_of_bounds_else_extents.nf:3:30: error: index `c + 1` of `A`, axis 1, runs over 1..4, valid is 0..3: one past the end
  Y[b,k,p,q] = sum[c,r,s] A[b, c+1, p*2+r, q*2+s] * W[k, c, r, s]
                               ^~~
note: with `c` over 0..3
help: read 0 outside: `p: 14,q: 14] = sum[c,r,s] A[b, c+1, p*2+r, q*2+s] else 0`
fix: read 0 outside: `p,q] = sum[c,r,s] A[b, c+1, p*2+r, q*2+s]` becomes `p: 14,q: 14] = sum[c,r,s] A[b, c+1, p*2+r, q*2+s] else 0`
