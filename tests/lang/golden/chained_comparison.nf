input X[3]
Y[i] = select(0 < X[i] < 1, 1, 0)
# ---- diagnostics
[chained-comparison] chained_comparison.nf:2:24: error: comparisons do not chain: write `a < b and b < c`
  Y[i] = select(0 < X[i] < 1, 1, 0)
                         ^
chained_comparison.nf:2:17: note: the first comparison
  Y[i] = select(0 < X[i] < 1, 1, 0)
                  ^
