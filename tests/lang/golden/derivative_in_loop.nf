param w = 1
param h = 0
for t in 0..3 { h = h * w
 g = d(h)/d(w) }
# ---- diagnostics
[derivative-in-loop] derivative_in_loop.nf:4:6: error: a derivative cannot be asked for inside a loop: behind it, `d(L)/d(W)` goes back through all its steps
   g = d(h)/d(w) }
       ^~~~~~~~~
