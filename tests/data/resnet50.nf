# ResNet-50 (He et al.), 224x224, one training step.
input in0[32, 3, 224, 224] = zeros()
input target[32] : i32 = zeros()
def cb(X[N,C,H,W], K, R; stride = 1, pad = 0) -> Y {
  conv = conv2d(X, K, R, stride=stride, pad=pad)
  Y = batch_norm(conv)
}
def bottleneck(X[N,C,H,W], K; stride = 1) -> Y {
  c0 = cb(X, K, 1)
  r0 = relu(c0)
  c1 = cb(r0, K, 3, stride=stride, pad=1)
  r1 = relu(c1)
  Y = cb(r1, 4*K, 1)
}
# The first block of a stage changes width or resolution, so its shortcut is projected.
def entry(X[N,C,H,W], K; stride = 1) -> Y {
  main = bottleneck(X, K, stride=stride)
  short = cb(X, 4*K, 1, stride=stride)
  Y[...] = relu(main[...] + short[...])
}
def block(X[N,C,H,W], K) -> Y {
  main = bottleneck(X, K)
  Y[...] = relu(main[...] + X[...])
}
stem = cb(in0, 64, 7, stride=2, pad=3)
rs = relu(stem)
p = max_pool2d(rs, 3, stride=2, pad=1)
x0_0 = entry(p, 64, stride=1)
x0_1 = block(x0_0, 64)
x0_2 = block(x0_1, 64)
x1_0 = entry(x0_2, 128, stride=2)
x1_1 = block(x1_0, 128)
x1_2 = block(x1_1, 128)
x1_3 = block(x1_2, 128)
x2_0 = entry(x1_3, 256, stride=2)
x2_1 = block(x2_0, 256)
x2_2 = block(x2_1, 256)
x2_3 = block(x2_2, 256)
x2_4 = block(x2_3, 256)
x2_5 = block(x2_4, 256)
x3_0 = entry(x2_5, 512, stride=2)
x3_1 = block(x3_0, 512)
x3_2 = block(x3_1, 512)
pooled = global_avg_pool(x3_2)
out = linear(pooled, 1000)
loss L = cross_entropy(out, target)
