input A[3] = 1
state h = zeros()
Y = mean[i, j: 3000000000, k: 3000000000, l: 3] A[i]
scatter[i: 4000000000, j: 4000000000] T[i: 4000000000] += A[j % 3]
Z[i] = A[i]
for t in 0..4000000000 {
  Z[i] = Z[i] + sum[j: 4000000000] random()
}
# ---- diagnostics
[extent-overflow] points_beyond_64_bits.nf:3:5: error: `mean` runs over more points than 64 bits count
  Y = mean[i, j: 3000000000, k: 3000000000, l: 3] A[i]
      ^~~~
note: with `i` over 0..2, `j` over 0..2999999999, `k` over 0..2999999999, `l` over 0..2
[extent-overflow] points_beyond_64_bits.nf:4:1: error: this runs over more points than 64 bits count
  scatter[i: 4000000000, j: 4000000000] T[i: 4000000000] += A[j % 3]
  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
note: with `i` over 0..3999999999, `j` over 0..3999999999
[many-points] points_beyond_64_bits.nf:7:17: warning: `sum` runs over 4000000000 points in each step of a loop: at a thousand million a second that takes 292 years
    Z[i] = Z[i] + sum[j: 4000000000] random()
                  ^~~
note: with `j` over 0..3999999999
[extent-overflow] points_beyond_64_bits.nf:7:36: error: `random()` is worked out at more points than 64 bits count
    Z[i] = Z[i] + sum[j: 4000000000] random()
                                     ^~~~~~~~
note: with `j` over 0..3999999999
