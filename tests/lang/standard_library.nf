# Every function of the standard library, used once.
let B = 4, C = 6
input X[B, C, 9, 9]
input y[B] : i32
input tok[B, 5] : i32

# %%
A = conv2d(X, 8, 3, stride=2, pad=1, bias=1)
A2 = conv2d(X, 12, 3, pad=2, dilation=2, groups=3)
A3 = depthwise2d(X, 3, stride=2, pad=1)
A4 = conv_transpose2d(X, 5, 3, stride=2, pad=1)
A5 = conv_transpose2d(X, 5, 3)
A6 = depth2space(A, 2)
A7 = channel_shuffle(X, 3)
A8 = upsample(X, 2)
A9 = concat(A, A3)

# %%
P1 = max_pool2d(X, 3, stride=2, pad=1)
P2 = avg_pool2d(X, 3, stride=2, pad=1)
P3 = avg_pool2d(X, 3)
P4 = global_avg_pool(X)
P5 = global_max_pool(X)

# %%
N1 = batch_norm(X)
N2 = batch_norm1d(P4)
N3 = layer_norm(P4)
N4 = dropout(gelu(P4), p=0.1)
S1 = log_softmax(linear(P4, 10))
S2 = softmax(P4)
Z = elu(P4) + leaky_relu(P4) + softplus(P4) * silu(P4) - gelu_tanh(P4) + hard_sigmoid(P4) * hard_tanh(P4) + clamp(P4, high=2) + square(P4)

# %%
E = embedding(tok, 11, 8)
T1 = encoder_layer(E, 2, 16)
T2 = self_attention(E, 4, causal=1)
W0 = project(P4, 2)
W1 = bias(X)

# %%
const h[B, 7] = 0.5
const c[B, 7] = zeros()
const h2[B, 7] = 0.5
const c2[B, 7] = zeros()
const h3[B, 7] = 0.5
const c3[B, 7] = zeros()
const h4[B, 7] = zeros()
const s[B, 3] = zeros()
const h5[B, 7] = 0.5
const c5[B, 7] = zeros()
for t in 0..5 {
  h, c = lstm(E[_, t, _], h, c)
  h2, c2 = sublstm(E[_, t, _], h2, c2)
  h3, c3 = lltm(E[_, 4 - t, _], h3, c3)
  h4, s = scrnn(E[_, t, _], h4, s)
  h5, c5 = milstm(E[_, t, _], h5, c5)
  stack Hs = h5
}
Q[b, n] = h[b, n] + h2[b, n] + h3[b, n] + h4[b, n] + h5[b, n]

# %%
cap = capsule_conv_vector(X, 4, 8, 3, stride=2)
input Poses[2, 3, 5, 5, 4, 4]
poses = capsule_conv(Poses, 3, 3, pad=1)
param Vw[4, 5, 3, 8] = normal(0, 1)
R = routing(Vw, iterations=4)

# %%
L1 = cross_entropy(linear(Q, 10), y)
L2 = mse(T1, T2)
L3 = margin_loss(lengths(squash(E)), y)
right = accuracy(S1, y)
loss L = L1 + L2 + L3 + mean[...] Z[...] + mean[...] A[...] + mean[...] N1[...] + mean[...] N4[...] + sum[...] R[...]
eval share = right * 1

# %%
train L { steps = 3; optimizer = momentum(lr=0.1); wrt = tensors(A.F, E.E) }
train L2 { steps = 3; optimizer = adam(); wrt = T1.F.W; clip = 5 }
train L1 { steps = 3; optimizer = sgd(lr=0.1, momentum=0.9, decay=1e-4); wrt = tensors(L1.linear.W, h.W) }
