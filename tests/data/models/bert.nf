# Two encoder layers of BERT, squared error.
input in0[3, 5, 8] = zeros()
input target[3, 5, 8] = zeros()
l0 = encoder_layer(in0, 2, 12)
out = encoder_layer(l0, 2, 12)
loss L = mse(out, target)
