input x
y = x + \
  1
# ---- diagnostics
[unexpected-character] line_continued.nf:2:9: error: `\` means nothing here
  y = x + \
          ^
help: leave it out: a line that ends with an operator goes on
fix: leave it out: a line that ends with an operator goes on: `\` becomes ``
