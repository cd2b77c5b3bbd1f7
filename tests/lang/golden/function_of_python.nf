input X[3] = 1
def f(x):
  return x*2
Y[i] = f(X[i])
