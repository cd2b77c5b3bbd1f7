input X[9]
Y[i: 3] = X[i % -2]
# ---- diagnostics
[negative-divisor] negative_divisor.nf:2:17: error: `%` takes a positive divisor, this one is -2
  Y[i: 3] = X[i % -2]
                  ^~
