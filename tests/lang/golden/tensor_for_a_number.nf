let N = 4
input A[N]
input M[N, 3]
state h[4] = zeros()
for t in 0..A { h[i] <- h[i] + 1 }
C[i: A] = 1
E[i: M] = 1
let K = A
# ---- diagnostics
[not-a-constant] tensor_for_a_number.nf:5:13: error: the end of the loop must be a number known while compiling, `A` is a tensor
  for t in 0..A { h[i] <- h[i] + 1 }
              ^
note: `A` has the extent N
help: write `N`
fix: write `N`: `A` becomes `N`
[not-a-constant] tensor_for_a_number.nf:6:6: error: the extent of index `i` must be a number known while compiling, `A` is a tensor
  C[i: A] = 1
       ^
note: `A` has the extent N
help: write `N`
fix: write `N`: `A` becomes `N`
[not-a-constant] tensor_for_a_number.nf:7:6: error: the extent of index `i` must be a number known while compiling, `M` is a tensor
  E[i: M] = 1
       ^
note: `M` has the extents [N, 3]: one that several places share is given a name, as in `let N = 4` and `input A[N]`
[not-a-constant] tensor_for_a_number.nf:8:9: error: `K` must be a number known while compiling, `A` is a tensor
  let K = A
          ^
