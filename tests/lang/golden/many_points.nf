input A[3]
Y = sum[i: 9000000000000000000] A[0]
h = 1.0
for t in 0..1000000000 {
  h = h + sum[k: 2000000] A[k % 3]
}
Z[i: 1000000] = A[i % 3]
# ---- diagnostics
[many-points] many_points.nf:2:5: warning: `sum` runs over 9000000000000000000 points: at a thousand million a second that takes 285 years
  Y = sum[i: 9000000000000000000] A[0]
      ^~~
note: with `i` over 0..8999999999999999999
[many-points] many_points.nf:5:11: warning: `sum` runs over 2000000 points in each step of a loop: at a thousand million a second that takes 23 days
    h = h + sum[k: 2000000] A[k % 3]
            ^~~
note: with `k` over 0..1999999
