# The digits capsule net with Adam, every operator spelled out: what the recorded losses were computed with.
let B = 64
input X[B, 8, 8] = zeros()
input y[B] : i32 = zeros()
param F1[64, 1, 3, 3] = zeros()
param b1[64] = zeros()
param F2[64, 64, 3, 3] = zeros()
param b2[64] = zeros()
param W[32, 10, 16, 8] = zeros()

A[n,k,p,q] = relu((sum[r,s] X[n, p + r, q + s] * F1[k,0,r,s]) + b1[k])
H[n,k,p: 2,q: 2] = (sum[c,r,s] A[n, c, 2*p + r, 2*q + s] * F2[k,c,r,s]) + b2[k]

def squash(S[N, I, D]) -> V {
  Q[n,i] = sum[d] S[n,i,d]^2
  V[n,i,d] = S[n,i,d] * Q[n,i] / ((1 + Q[n,i]) * sqrt(Q[n,i] + 1e-8))
}
S[n,i: 32,d: 8] = H[n, 8*d + i//4, (i%4)//2, i%2]
U = squash(S)
votes[n,i,c,e] = sum[d] U[n,i,d] * W[i,c,e,d]

def route(L[N, I, C], V[N, I, C, E]) -> Z {
  P[n,i,c] = exp(L[n,i,c] - stop_gradient(max[k] L[n,i,k]))
  R[n,i,c] = P[n,i,c] / (sum[k] P[n,i,k])
  T[n,c,e] = sum[i] R[n,i,c] * V[n,i,c,e]
  Z = squash(T)
}
L0[n: B,i: 32,c: 10] = 0.0
V0 = route(L0, votes)
L1[n,i,c] = L0[n,i,c] + (sum[e] votes[n,i,c,e] * V0[n,c,e])
V1 = route(L1, votes)
L2[n,i,c] = L1[n,i,c] + (sum[e] votes[n,i,c,e] * V1[n,c,e])
V2 = route(L2, votes)
len[n,c] = sqrt((sum[e] V2[n,c,e]^2) + 1e-8)
M[n] = sum[c] select(y[n] == c, relu(0.9 - len[n,c])^2, 0.5 * relu(len[n,c] - 0.1)^2)
loss L = mean[n] M[n]

state t = zeros()
t <- t + 1
def adam(P[...], G[...], t; lr = 1e-3) {
  state m[...] = zeros()
  state v[...] = zeros()
  m1[...] = 0.9 * m[...] + 0.1 * G[...]
  v1[...] = 0.999 * v[...] + 0.001 * G[...]^2
  m[...] <- m1[...]
  v[...] <- v1[...]
  P[...] <- P[...] - lr * (m1[...] / (1 - 0.9^(t + 1))) / (sqrt(v1[...] / (1 - 0.999^(t + 1))) + 1e-8)
}
adam(F1, d(L)/d(F1), t)
adam(b1, d(L)/d(b1), t)
adam(F2, d(L)/d(F2), t)
adam(b2, d(L)/d(b2), t)
adam(W, d(L)/d(W), t)
