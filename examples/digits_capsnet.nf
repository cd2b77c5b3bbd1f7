# %% [markdown]
# # Capsules read digits
# 1,797 handwritten digits of 8 x 8 pixels; the last 360 are never trained on. The net is a small CapsuleNet (Sabour, Frosst and
# Hinton 2017): a convolution, a convolution whose outputs are grouped into capsules, and a layer in which every capsule votes
# for the pose of every class. Votes that agree are routed together. The length of a class's capsule says whether that digit is there.

# %%
let B = 64

data D = digits { split = last 360 }
input X[B, 8, 8] = batch D[:, 0..64] / 16
input y[B] : i32 = batch D[:, 64]

# %% [markdown]
# ## Convolution, 3 x 3, 64 filters
# Weights and biases are drawn as PyTorch draws them: uniformly within 1/sqrt(inputs of one output).

# %%
param F1[64, 3, 3] = uniform(-1/3, 1/3)
param b1[64]       = uniform(-1/3, 1/3)

A[b, k, p, q] = relu(b1[k] + sum[r, s] X[b, p + r, q + s] * F1[k, r, s])

# %% [markdown]
# ## Capsule convolution, 3 x 3, stride 2
# 8 types of capsules, each a vector of 8 elements, at 2 x 2 places: 32 capsules `i`. `squash` keeps a vector's direction and
# maps its length to [0, 1).

# %%
param F2[8, 8, 64, 3, 3] = uniform(-1/24, 1/24)
param b2[8, 8]           = uniform(-1/24, 1/24)

C[b, d, t, p, q] = b2[d, t] + sum[c, r, s] A[b, c, p*2 + r, q*2 + s] * F2[d, t, c, r, s]
P[b, i: 32, d] = C[b, d, i // 4, i // 2 % 2, i % 2]
U = squash(P)

# %% [markdown]
# ## Votes and routing
# Capsule `i` votes for the pose of class `n`. Three rounds of routing: each round sends more of a vote to the class it agrees
# with, and gradients flow through all of them. `routing` is written in this language too: look at `std/capsule.nf`.

# %%
param W[32, 10, 16, 8] = normal(0, 0.1)

Votes[b, i, n, e] = sum[d] U[b, i, d] * W[i, n, e, d]
V = routing(Votes, iterations=3)
Length = lengths(V)

# %%
loss L = margin_loss(Length, y)
eval accuracy = mean[b] (argmax[n] Length[b, n] == y[b])

# %%
train L { epochs = 40; batch = 64; optimizer = adam(lr=1e-3); mode = dynamic; device = auto; seed = 1 }
