input X[3]
Y[i] = X[i] * 2
hint schedule Y { kind = elementwise; lanes = 4 }
hint schedule Y { kind = elementwise; lanes = 8 }
# ---- diagnostics
[contradiction] schedule_twice.nf:4:15: error: `Y` has a schedule already
  hint schedule Y { kind = elementwise; lanes = 8 }
                ^
schedule_twice.nf:3:1: note: the other hint
  hint schedule Y { kind = elementwise; lanes = 4 }
  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
