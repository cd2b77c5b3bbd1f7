input X[2, 6, 4, 4]
Y = channel_shuffle(X, groups=3)
# ---- diagnostics
[wrong-arity] argument_by_name.nf:2:5: error: `channel_shuffle` takes 2 arguments, here is 1
  Y = channel_shuffle(X, groups=3)
      ^~~~~~~~~~~~~~~
argument_by_name.nf:2:5: note: `groups` is an argument: its value stands in its place, without its name
  Y = channel_shuffle(X, groups=3)
      ^~~~~~~~~~~~~~~
std/conv.nf:50:5: note: channel_shuffle(X[N, C, H, W], groups) -> Y
  def channel_shuffle(X[N, C, H, W], groups) -> Y {
      ^~~~~~~~~~~~~~~
