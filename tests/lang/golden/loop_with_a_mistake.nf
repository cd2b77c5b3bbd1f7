input X[4] = 1
a = X
for t in 0..3 {
  a[i] = a[i - 1] else -1
}
show a
# ---- diagnostics
[else-atom] loop_with_a_mistake.nf:4:24: error: `else` takes one number, name or parenthesis
    a[i] = a[i - 1] else -1
                         ^
help: add parentheses: `(-1)`
fix: add parentheses: `-1` becomes `(-1)`
