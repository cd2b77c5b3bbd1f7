state s = zeros()
const h[3] = 0
for t in 0..3 {
  h[i] = h[i] + 1
  s <- s + 1
}
# ---- diagnostics
[update-in-loop] loop_data_update.nf:5:3: error: `<-` takes effect at the end of a step: it can't stand inside `for`
    s <- s + 1
    ^~~~~~~~~~
