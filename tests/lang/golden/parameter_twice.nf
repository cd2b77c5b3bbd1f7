input A[4] = 1
def g(x, x) = x
def h(x; k = 1, k = 2) -> Y { Y = x*k }
def f(x) = x*a where x = 3
Y = g(A, A)
# ---- diagnostics
[redefinition] parameter_twice.nf:2:10: error: `g` names `x` twice
  def g(x, x) = x
           ^
parameter_twice.nf:2:7: note: it was named here
  def g(x, x) = x
        ^
[redefinition] parameter_twice.nf:3:17: error: `h` names `k` twice
  def h(x; k = 1, k = 2) -> Y { Y = x*k }
                  ^
parameter_twice.nf:3:10: note: it was named here
  def h(x; k = 1, k = 2) -> Y { Y = x*k }
           ^
[redefinition] parameter_twice.nf:4:22: error: `f` names `x` twice
  def f(x) = x*a where x = 3
                       ^
parameter_twice.nf:4:7: note: it was named here
  def f(x) = x*a where x = 3
        ^
