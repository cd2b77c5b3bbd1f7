X = normal(0, 1)
Y[i: 3] = zeros() + 1
Z[i, j] = zeros(4, max(5, 6))
# ---- diagnostics
[undefined-function] initial_value_in_a_statement.nf:1:5: error: there is no function `normal`
  X = normal(0, 1)
      ^~~~~~
note: it gives a declared tensor its values: `param W[2, 3] = normal(0, 1)`; `input`, `const` and `state` take it, too
[undefined-function] initial_value_in_a_statement.nf:2:11: error: there is no function `zeros`
  Y[i: 3] = zeros() + 1
            ^~~~~
note: it gives a declared tensor its values: `param W[2, 3] = zeros()`; `input`, `const` and `state` take it, too
[undefined-function] initial_value_in_a_statement.nf:3:11: error: there is no function `zeros`
  Z[i, j] = zeros(4, max(5, 6))
            ^~~~~
note: it gives a declared tensor its values: `param W[4, max(5, 6)] = zeros()`; `input`, `const` and `state` take it, too
