input X[3]
Y[i] = (X[i] + 1) else 0
# ---- diagnostics
[else-without-access] else_without_access.nf:2:19: error: `else` belongs to an access, as in `X[i - 1] else 0`
  Y[i] = (X[i] + 1) else 0
                    ^~~~
