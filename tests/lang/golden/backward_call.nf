input X[4, 3] = normal(0, 1)
param W[2, 3] = normal(0, 1)
Y[b, n] = sum[k] X[b, k] * W[n, k]
loss L = mean[b, n] Y[b, n]^2
L.backward()
Z[n, k] = W.grad[n, k]
V = W.grad
# ---- diagnostics
[undefined-function] backward_call.nf:5:1: error: there is no function `L.backward`
  L.backward()
  ^~~~~~~~~~
note: a gradient is written `d(L)/d(W)`; `train L { steps = 100; optimizer = sgd(lr=0.1) }` trains
[undefined-name] backward_call.nf:6:11: error: `W.grad` is not defined
  Z[n, k] = W.grad[n, k]
            ^~~~~~
note: a gradient is written `d(L)/d(W)`
[undefined-name] backward_call.nf:7:5: error: `W.grad` is not defined
  V = W.grad
      ^~~~~~
note: a gradient is written `d(L)/d(W)`
