data D = mnist
# ---- diagnostics
[unknown-data] unknown_data.nf:1:10: error: `mnist` is no bundled data set: there is `digits`
  data D = mnist
           ^~~~~
