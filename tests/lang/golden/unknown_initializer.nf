param W[3] = gaussian(0, 1)
# ---- diagnostics
[unknown-initializer] unknown_initializer.nf:1:14: error: `gaussian` is no initial value: there are normal, uniform, kaiming, xavier, zeros, npy, npz, idx, csv, safetensors, batch
  param W[3] = gaussian(0, 1)
               ^~~~~~~~
