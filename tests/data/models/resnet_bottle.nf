# ResNet of three bottleneck blocks.
input in0[3, 3, 20, 20] = zeros()
input target[3] : i32 = zeros()
def cb(X[N,C,H,W], K, R; stride = 1, pad = 0) -> Y {
  conv = conv2d(X, K, R, stride=stride, pad=pad)
  Y = batch_norm(conv)
}
def body(X[N,C,H,W], K; stride = 1) -> Y {
  c0 = cb(X, K, 1)
  r0 = relu(c0)
  c1 = cb(r0, K, 3, stride=stride, pad=1)
  r1 = relu(c1)
  Y = cb(r1, 4*K, 1)
}
stem = cb(in0, 2, 7, stride=2, pad=3)
rs = relu(stem)
x0 = max_pool2d(rs, 3, stride=2, pad=1)
y0 = body(x0, 2)
d0 = cb(x0, 8, 1)
x1[...] = relu(y0[...] + d0[...])
y1 = body(x1, 4, stride=2)
d1 = cb(x1, 16, 1, stride=2)
x2[...] = relu(y1[...] + d1[...])
y2 = body(x2, 4)
x3[...] = relu(y2[...] + x2[...])
pooled = global_avg_pool(x3)
out = linear(pooled, 3)
loss L = cross_entropy(out, target)
