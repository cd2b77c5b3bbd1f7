# %% [markdown]
# # Four operators, one chain
# Padding, a strided and dilated convolution, depth to space, concatenation: figure 4 of the NeoFlow paper. Each is an expression, so
# each has a gradient that is derived, not looked up, and the chain can be fused as a whole.

# %%
let N = 2, C = 3, K = 8, H = 8

input X[N, C, H, H] = normal(0, 1)
param F[K, C, 3, 3] = normal(0, 0.2)

# %% [markdown]
# Padding in one word: outside of `X` there is 0.

# %%
Padded[n, c, h: H + 4, w: H + 4] = X[n, c, h - 2, w - 2] else 0

# %% [markdown]
# Stride 2 and dilation 2. `p` and `q` end where the last window still fits.

# %%
Conv[n, k, p, q] = sum[c, r, s] Padded[n, c, 2*p + 2*r, 2*q + 2*s] * F[k, c, r, s]

# %% [markdown]
# Four channels become a block of 2 x 2 pixels. Division and remainder are inverted together: the gradient is one read for each
# element.

# %%
Space[n, c: K // 4, h: H, w: H] = Conv[n, 4*c + 2*(h % 2) + w % 2, h // 2, w // 2]

# %% [markdown]
# One behind the other along the channels. `select` is lazy: each side is only read where it exists, and that is proved.

# %%
Joined[n, c: K // 4 + C, h: H, w: H] = select(c < K // 4, Space[n, c, h, w], X[n, c - K // 4, h, w])

# %%
loss L = mean[n, c, h, w] Joined[n, c, h, w]^2
show d(L)/d(F), d(L)/d(X)
