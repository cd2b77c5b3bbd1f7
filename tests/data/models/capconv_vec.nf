# Capsule convolution with vector capsules: one convolution for each element.
input in0[3, 3, 7, 6] = zeros()
out = capsule_conv_vector(in0, 5, 4, 3, stride=2, pad=1)
loss L = mean[b,n,k,p,q] out[b,n,k,p,q]^2
