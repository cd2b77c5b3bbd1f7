param W[4] = 1
def f(x[K]) -> u, u { u = x*2 }
a, a = W, W
h = W*1
for t in 0..3 { h, h = h*2, h*3 }
repeat 2 { h, h = h*2, h*3 }
show h, a
# ---- diagnostics
[redefinition] named_twice.nf:2:19: error: `f` gives `u` twice
  def f(x[K]) -> u, u { u = x*2 }
                    ^
named_twice.nf:2:16: note: it was named here
  def f(x[K]) -> u, u { u = x*2 }
                 ^
[redefinition] named_twice.nf:3:4: error: this statement names `a` twice
  a, a = W, W
     ^
named_twice.nf:3:1: note: it was named here
  a, a = W, W
  ^
[redefinition] named_twice.nf:5:20: error: this statement names `h` twice
  for t in 0..3 { h, h = h*2, h*3 }
                     ^
named_twice.nf:5:17: note: it was named here
  for t in 0..3 { h, h = h*2, h*3 }
                  ^
[redefinition] named_twice.nf:6:15: error: this statement names `h` twice
  repeat 2 { h, h = h*2, h*3 }
                ^
named_twice.nf:6:12: note: it was named here
  repeat 2 { h, h = h*2, h*3 }
             ^
