let X = 2
if X = 3 { let Y = 1 }
input a[3] = 1
Y[i] = select(X = 3, a[i], 0)
