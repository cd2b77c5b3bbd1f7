import numpy as np
x = np.zeros(3)
# ---- diagnostics
[unknown-statement] statement_of_python.nf:1:1: error: `import` begins no statement
  import numpy as np
  ^~~~~~
note: a statement defines a tensor, `Y[i] = ...`, or begins with one of accumulate const data def eval for hint input let if loss param repeat require scatter show stack state train
[undefined-function] statement_of_python.nf:2:5: error: there is no function `np.zeros`
  x = np.zeros(3)
      ^~~~~~~~
