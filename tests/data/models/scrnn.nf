# SCRNN over four steps.
input in0[3, 4, 5] = zeros()
input target[3] : i32 = zeros()
param U[3, 6] = zeros()
param V[3, 3] = zeros()
h[b: 3,n: 6] = 0.0
s[b: 3,m: 3] = 0.0
for t in 0..4 { h, s = scrnn(in0[_, t, _], h, s) }
out[b,k] = (sum[n] h[b,n] * U[k,n]) + sum[m] s[b,m] * V[k,m]
loss L = cross_entropy(out, target)
