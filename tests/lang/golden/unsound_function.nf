input a[3] = 1
def g(x) = x where
Y[i] = g(a[i])
param W[3] = 1
def descent(W[...], G[...]; lr { W[...] <- W[...] - lr*G[...] }
loss L = sum[i] W[i]^2
train L { optimizer = descent(lr=0.1); steps = 3 }
# ---- diagnostics
[expected] unsound_function.nf:2:19: error: expected a name after `where`, found the end of the line
  def g(x) = x where
                    ^
[expected] unsound_function.nf:5:32: error: expected `)` or a comma, found `{`
  def descent(W[...], G[...]; lr { W[...] <- W[...] - lr*G[...] }
                                 ^
