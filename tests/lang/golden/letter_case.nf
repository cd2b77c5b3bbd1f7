input X[4]
param W[4]
Y[i] = X[i] * w[i]
# ---- diagnostics
