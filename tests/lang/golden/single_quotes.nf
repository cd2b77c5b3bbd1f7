data D = csv('x.csv')
# ---- diagnostics
[unexpected-character] single_quotes.nf:1:14: error: a string stands in double quotes
  data D = csv('x.csv')
               ^~~~~~~
help: write `"x.csv"`
fix: write `"x.csv"`: `'x.csv'` becomes `"x.csv"`
