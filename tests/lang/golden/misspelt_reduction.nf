input X[4, 5]
input W[5, 3]
Y[i, j] = summ[k] X[i, k]*W[k, j]
# ---- diagnostics
