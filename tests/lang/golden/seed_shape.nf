input X[3]
input S[4]
Y[i] = X[i]^2
G = grad(Y, X, S)
# ---- diagnostics
[shape-mismatch] seed_shape.nf:4:16: error: the seed has the shape of `Y`, f32 [3]; this one is f32 [4]
  G = grad(Y, X, S)
                 ^
