input a[3] = 1
def g(x) = x where
Y[i] = g(a[i])
param W[3] = 1
def descent(W[...], G[...]; lr { W[...] <- W[...] - lr*G[...] }
loss L = sum[i] W[i]^2
train L { optimizer = descent(lr=0.1); steps = 3 }
