input X[2, 4, 8, 8]
A = dropout(X, p=1.5)
B = dropout(X, p=-0.1)
C = max_pool2d(X, 2, pad=2)
D = layer_norm(X, eps=-1)
E = batch_norm(X, eps=-1)
F = batch_norm1d(X[_, _, 0, 0], eps=-1, momentum=0.5)
G = batch_norm(X, momentum=2)
H = encoder_layer(X[0, _, _, _], 2, 16, eps=-1)
# ---- diagnostics
[requirement] requirement_of_layers.nf:2:5: error: `dropout`: `p` must be at least 0 and less than 1: p = 1.5
  A = dropout(X, p=1.5)
      ^~~~~~~
std/norm.nf:72:11: note: it is required here
    require p >= 0 and p < 1, "`p` must be at least 0 and less than 1"
            ^~~~~~~~~~~~~~~~
[requirement] requirement_of_layers.nf:3:5: error: `dropout`: `p` must be at least 0 and less than 1: p = -0.1
  B = dropout(X, p=-0.1)
      ^~~~~~~
std/norm.nf:72:11: note: it is required here
    require p >= 0 and p < 1, "`p` must be at least 0 and less than 1"
            ^~~~~~~~~~~~~~~~
[requirement] requirement_of_layers.nf:4:5: error: `max_pool2d`: `pad` must be from 0 to half of the window R, or a window may lie outside: pad = 2, R = 2
  C = max_pool2d(X, 2, pad=2)
      ^~~~~~~~~~
std/pool.nf:9:11: note: it is required here
    require pad >= 0 and 2*pad <= R, "`pad` must be from 0 to half of the window R, or a window may lie outside"
            ^~~~~~~~~~~~~~~~~~~~~~~
[requirement] requirement_of_layers.nf:5:5: error: `layer_norm`: `eps` must be 0 or more: eps = -1
  D = layer_norm(X, eps=-1)
      ^~~~~~~~~~
std/norm.nf:21:11: note: it is required here
    require eps >= 0, "`eps` must be 0 or more"
            ^~~~~~~~
[requirement] requirement_of_layers.nf:6:5: error: `batch_norm`: `eps` must be 0 or more: eps = -1
  E = batch_norm(X, eps=-1)
      ^~~~~~~~~~
std/norm.nf:33:11: note: it is required here
    require eps >= 0, "`eps` must be 0 or more"
            ^~~~~~~~
[requirement] requirement_of_layers.nf:7:5: error: `batch_norm1d`: `eps` must be 0 or more: eps = -1
  F = batch_norm1d(X[_, _, 0, 0], eps=-1, momentum=0.5)
      ^~~~~~~~~~~~
std/norm.nf:52:11: note: it is required here
    require eps >= 0, "`eps` must be 0 or more"
            ^~~~~~~~
[requirement] requirement_of_layers.nf:8:5: error: `batch_norm`: `momentum` must be from 0 to 1: momentum = 2
  G = batch_norm(X, momentum=2)
      ^~~~~~~~~~
std/norm.nf:34:11: note: it is required here
    require momentum >= 0 and momentum <= 1, "`momentum` must be from 0 to 1"
            ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
[requirement] requirement_of_layers.nf:9:5: error: `encoder_layer`: `eps` must be 0 or more: eps = -1
  H = encoder_layer(X[0, _, _, _], 2, 16, eps=-1)
      ^~~~~~~~~~~~~
std/attention.nf:35:11: note: it is required here
    require eps >= 0, "`eps` must be 0 or more"
            ^~~~~~~~
