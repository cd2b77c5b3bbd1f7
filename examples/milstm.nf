# %% [markdown]
# # A recurrent net with multiplicative integration
# The rows of a digit are read one after the other, like a sentence of eight words. In an MI-LSTM (Wu et al. 2016) what comes in and
# what is remembered are multiplied, gate by gate.

# %%
let B = 64, H = 48

data D = digits { split = last 360 }
input X[B, 8, 8] = batch D[:, 0..64] / 16
input y[B] : i32 = batch D[:, 64]

# %% [markdown]
# The memory starts at 0.5: with zeros the product would stay zero. The loop is one operator: its parameters are made once, outside
# time, and what does not depend on the memory is moved out of it.

# %%
const h[B, H] = 0.5
const c[B, H] = zeros()

for t in 0..8 { h, c = milstm(X[_, t, _], h, c) }

Score = linear(h, 10)

# %%
loss L = cross_entropy(Score, y)
eval accuracy = mean[b] (argmax[n] Score[b, n] == y[b])

# %%
train L { epochs = 30; batch = 64; optimizer = adam(lr=3e-3); clip = 1;
          mode = dynamic; device = auto; seed = 1 }
