input x
y = x * 2
y = y + 1
# ---- diagnostics
[redefinition] redefined_value.nf:3:1: error: `y` is defined already
  y = y + 1
  ^
redefined_value.nf:2:1: note: it was defined here
  y = x * 2
  ^
note: a name is given once: call the new value otherwise
