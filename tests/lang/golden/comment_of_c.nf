input x // an input
y = x + 1
// a line
loss L = x // the loss of it
/* a part */
# ---- diagnostics
[expected] comment_of_c.nf:1:9: error: expected the end of the statement, found `//`
  input x // an input
          ^~
note: a comment starts with `#`
[expected] comment_of_c.nf:3:1: error: a statement can't start with `//`
  // a line
  ^~
note: a comment starts with `#`
[expected] comment_of_c.nf:4:19: error: expected the end of the statement, found `loss`
  loss L = x // the loss of it
                    ^~~~
note: a comment starts with `#`
[expected] comment_of_c.nf:5:1: error: a statement can't start with `/`
  /* a part */
  ^
note: a comment starts with `#`
