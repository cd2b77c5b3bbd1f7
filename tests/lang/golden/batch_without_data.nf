input X[8, 3]
param W[3] = normal(0, 1)
loss L = mean[b, i] (X[b, i]*W[i])^2
train L { batch = 3; steps = 5 }
# ---- diagnostics
[unused-attribute] batch_without_data.nf:4:11: warning: `batch` changes nothing here: no input takes a batch
  train L { batch = 3; steps = 5 }
            ^~~~~
note: `input X[B, ...] = batch D[:, 0..4]` takes rows of a data set
