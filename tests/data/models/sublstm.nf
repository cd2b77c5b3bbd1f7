# subLSTM over four steps.
input in0[3, 4, 5] = zeros()
input target[3] : i32 = zeros()
h[b: 3,n: 6] = 0.0
c[b: 3,n: 6] = 0.0
for t in 0..4 { h, c = sublstm(in0[_, t, _], h, c) }
out = linear(h, 3)
loss L = cross_entropy(out, target)
