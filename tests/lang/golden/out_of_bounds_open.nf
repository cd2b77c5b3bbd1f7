input A[3]
Y[i] = A[i-1]
# ---- diagnostics
[index-out-of-bounds] out_of_bounds_open.nf:2:10: error: index `i - 1` of `A`, axis 0, runs over -1..-1, valid is 0..2: one before the start
  Y[i] = A[i-1]
           ^~~
note: with `i` over 0..0
note: no extent of `i` keeps it inside: write one, and what is read outside, as in `i: 3` and `A[i-1] else 0`
