input A[7]
L = sum[i: 4] A[i*i%5]
# ---- diagnostics
[non-affine-index] remainder_of_product.nf:2:17: error: this index is not affine: indices are added, and multiplied or divided by constants only
  L = sum[i: 4] A[i*i%5]
                  ^~~
note: `i32(i*i)` is a value, and `%` takes it
