input X[3] = 1
Y[i] = X[i].exp()
Z = X.sum()
