# MI-LSTM (Wu et al. 2016), T steps, a linear readout of the last state, cross entropy.
let B = 16, T = 28, X = 28, H = 128, N = 10
input in0[B, T, X] = normal(0, 1)
target[b: B] = b % N
h[b: B, n: H] = 0.5
c[b: B, n: H] = 0.0
for t in 0..T { h, c = milstm(in0[_, t, _], h, c) }
out = linear(h, N)
loss L = cross_entropy(out, target)
train L { steps = 1000; optimizer = sgd(lr=1e-4); mode = dynamic; device = auto; seed = 1 }
