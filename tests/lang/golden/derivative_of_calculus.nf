input X[4, 3] = normal(0, 1)
param W[2, 3] = normal(0, 1)
Y[b, n] = sum[k] X[b, k] * W[n, k]
loss L = mean[b, n] Y[b, n]^2
show dL/dW
V[n, k] = 2 - dL / dW[n, k]
# ---- diagnostics
[undefined-name] derivative_of_calculus.nf:5:6: error: `dL` and `dW` are not defined
  show dL/dW
       ^~~~~
note: a gradient is written `d(L)/d(W)`
help: write `d(L)/d(W)`
fix: write `d(L)/d(W)`: `dL/dW` becomes `d(L)/d(W)`
[undefined-name] derivative_of_calculus.nf:6:15: error: `dL` and `dW` are not defined
  V[n, k] = 2 - dL / dW[n, k]
                ^~~~~~~
note: a gradient is written `d(L)/d(W)`
help: write `d(L)/d(W)`
fix: write `d(L)/d(W)`: `dL / dW` becomes `d(L)/d(W)`
