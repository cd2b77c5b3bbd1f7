input x // an input
y = x + 1
# ---- diagnostics
[expected] comment_of_c.nf:1:9: error: expected the end of the statement, found `//`
  input x // an input
          ^~
note: a comment starts with `#`
