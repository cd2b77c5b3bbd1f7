state n = zeros()
n <- n + 1
n <- n + 2
# ---- diagnostics
[updated-twice] updated_twice.nf:3:1: error: `n` is updated already in this step
  n <- n + 2
  ^
