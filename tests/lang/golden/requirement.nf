let half = 3
input X[2, 6, 8, 8]
A = conv2d(X, 8, 3, groups=4)
B = conv2d(X, 8, 3, groups=0)
C = max_pool2d(X, 9)
S = mean[...] X[...]
require half >= 4, "`half` is too small"
require half % 2 == 0
def pairs(V[N]) -> Y {
  require N % 2 == 0, "pairs need an even number"
  Y[i: N // 2] = V[2*i] + V[2*i + 1] + missing[i]
}
P = pairs(X[_, 0, 0, 0])
Q = pairs(X[0, 0, _, 0])
O = pairs(conv2d(X, 1, 8)[0, 0, 0, _])
# ---- diagnostics
[requirement] requirement.nf:3:5: error: `conv2d`: `groups` must divide the channels C and the filters K: C = 6, groups = 4, K = 8
  A = conv2d(X, 8, 3, groups=4)
      ^~~~~~
std/conv.nf:9:11: note: it is required here
    require C % groups == 0 and K % groups == 0, "`groups` must divide the channels C and the filters K"
            ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
[requirement] requirement.nf:4:5: error: `conv2d`: `stride`, `dilation` and `groups` are at least 1: stride = 1, dilation = 1, groups = 0
  B = conv2d(X, 8, 3, groups=0)
      ^~~~~~
std/conv.nf:8:11: note: it is required here
    require stride >= 1 and dilation >= 1 and groups >= 1, "`stride`, `dilation` and `groups` are at least 1"
            ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
[requirement] requirement.nf:5:5: error: `max_pool2d`: the window does not fit into the padded image: H = 8, pad = 0, R = 9, W = 8
  C = max_pool2d(X, 9)
      ^~~~~~~~~~
std/pool.nf:8:11: note: it is required here
    require H + 2*pad >= R and W + 2*pad >= R, "the window does not fit into the padded image"
            ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
[requirement] requirement.nf:7:9: error: `half` is too small: half = 3
  require half >= 4, "`half` is too small"
          ^~~~~~~~~
[requirement] requirement.nf:8:9: error: `half % 2 == 0` does not hold: half = 3
  require half % 2 == 0
          ^~~~~~~~~~~~~
[undefined-name] requirement.nf:11:40: error: `missing` is not defined
    Y[i: N // 2] = V[2*i] + V[2*i + 1] + missing[i]
                                         ^~~~~~~
requirement.nf:13:5: note: in this call of `pairs`
  P = pairs(X[_, 0, 0, 0])
      ^~~~~
requirement.nf:14:5: note: and in this call of `pairs`
  Q = pairs(X[0, 0, _, 0])
      ^~~~~
[requirement] requirement.nf:15:5: error: `pairs`: pairs need an even number: N = 1
  O = pairs(conv2d(X, 1, 8)[0, 0, 0, _])
      ^~~~~
requirement.nf:10:11: note: it is required here
    require N % 2 == 0, "pairs need an even number"
            ^~~~~~~~~~
