# %% [markdown]
# # Capsule convolution
# A capsule is a small matrix, a *pose*, where an ordinary network has one number. A capsule convolution slides a window over
# a picture of poses, and every product of the window is a product of two 4 x 4 matrices (NeoFlow, section 2.3). No library has this
# operator. Here it is one line.
#
# Names come first: `B` pictures of `C` input capsules, `K` output capsules, windows of `R` x `R`.

# %%
let B = 1, C = 4, K = 16, H = 14, R = 3

input A[B, C, 2*H+1, 2*H+1, 4, 4] = normal(0, 1)
param W[K, C, R, R, 4, 4]         = normal(0, 0.05)

# %% [markdown]
# The operator. Indices on the left run over the output, `sum[...]` names those that are added up. How far `p`, `q` and the others
# run is worked out from the shapes: the editor shows it in grey. The window moves by two, so `p*2 + r` reads `A`.

# %%
Y[b,k,p,q,i,j] = sum[c,r,s,l] A[b, c, p*2+r, q*2+s, i, l] * W[k, c, r, s, l, j]

# %% [markdown]
# A loss is one number. This one asks every element of every output pose to be 1.

# %%
loss L = mean[b,k,p,q,i,j] (Y[b,k,p,q,i,j] - 1)^2

# %% [markdown]
# Its derivatives are tensors like all others. Look at the gradient view: `p*2 + r` had to be inverted, and the certificate says that
# the result is exact.

# %%
show Y, d(L)/d(W), d(L)/d(A)

# %% [markdown]
# Training starts at once, with kernels that a model of the machine chose. While it runs, better ones are searched, measured and
# swapped in between two steps: watch the step time fall.

# %%
train L { optimizer = sgd(lr=0.1, momentum=0.9); steps = 10000; mode = dynamic; device = auto }
