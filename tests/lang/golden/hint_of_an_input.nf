input X[3] = 1
param W[3] = zeros()
Y[i] = X[i] * W[i]
hint fuse X, Y
hint split W, Y
hint schedule X {"kind": "contraction", "knobs": {"tile": [8, 8]}}
# ---- diagnostics
[bad-hint] hint_of_an_input.nf:4:11: error: `X` is an input: no kernel makes it
  hint fuse X, Y
            ^
note: a hint names tensors that operators make
[bad-hint] hint_of_an_input.nf:5:12: error: `W` is a parameter: no kernel makes it
  hint split W, Y
             ^
note: a hint names tensors that operators make
[bad-hint] hint_of_an_input.nf:6:15: error: `X` is an input: no kernel makes it
  hint schedule X {"kind": "contraction", "knobs": {"tile": [8, 8]}}
                ^
note: a hint names tensors that operators make
