# SPDX-License-Identifier: Apache-2.0
# Elementwise functions. `def f(x) = ...` takes a number: inside brackets it is written f(X[i, j]), on whole tensors Y = f(X).
# They are written into the operator that uses them, so they cost no tensor of their own. relu, sigmoid and tanh are part of the
# language already.

# Gaussian error linear unit: x times the probability that a standard normal variable is below x.
def gelu(x) = 0.5 * x * (1 + erf(x * 0.7071067811865476))

# The same with the tanh approximation of the first papers.
def gelu_tanh(x) = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x^3)))

# Exponential linear unit. `select` is lazy: exp is not asked for large x.
def elu(x; alpha = 1) = select(x > 0, x, alpha * (exp(x) - 1))

# A small slope where relu has none.
def leaky_relu(x; slope = 0.01) = select(x > 0, x, slope * x)

# log(1 + exp(x)), written so that exp never overflows, and without a kink at 0, where its slope is 1/2.
def softplus(x) = select(x > 0, x + log(1 + exp(-x)), log(1 + exp(x)))

# x * sigmoid(x), also called swish.
def silu(x) = x * sigmoid(x)

# Piecewise linear stand-ins for sigmoid and tanh.
def hard_sigmoid(x) = min(max(x / 6 + 0.5, 0), 1)
def hard_tanh(x) = min(max(x, -1), 1)

def clamp(x; low = 0, high = 1) = min(max(x, low), high)
def square(x) = x * x
