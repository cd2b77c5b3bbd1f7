input x
print(x)
# ---- diagnostics
[undefined-function] printed.nf:2:1: error: there is no function `print`
  print(x)
  ^~~~~
note: a value is shown with `show x`
