param W[4] = 1
def f(x[K]) -> u, v { u = x*2; v = x*3 }
_, b = f(W)
c, _ = f(W)
_ = W*2
show b, c
# ---- diagnostics
[expected] unnamed_result.nf:3:1: error: every result needs a name: `_` is none
  _, b = f(W)
  ^
note: what nothing reads is not computed
[expected] unnamed_result.nf:4:4: error: every result needs a name: `_` is none
  c, _ = f(W)
     ^
note: what nothing reads is not computed
[expected] unnamed_result.nf:5:1: error: every result needs a name: `_` is none
  _ = W*2
  ^
note: what nothing reads is not computed
