let i = 3
input X[3] = 1
Y[i] = X[i]*2
S = sum[i] X[i]
