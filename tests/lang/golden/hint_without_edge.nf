input A[3]
B[i] = A[i] + 1
C[i] = B[i] * 2
D[i] = C[i] + A[i]
hint fuse B, B
hint fuse B, D
hint split D, C, B
# ---- diagnostics
[bad-hint] hint_without_edge.nf:5:11: error: `B` stands beside itself: a hint names a tensor and one that reads it
  hint fuse B, B
            ^~~~
[bad-hint] hint_without_edge.nf:6:11: warning: neither of `B` and `D` reads the other: the hint changes nothing
  hint fuse B, D
            ^~~~
note: a hint names a tensor and one that reads it
