data D = excel("x.xls")
input A[4] = "a.npy"
input C[4] = "a.bin"
# ---- diagnostics
[unknown-initializer] data_unknown_reader.nf:1:10: error: `excel` reads no data: there are csv, npy, npz, idx, and the bundled set `digits`
  data D = excel("x.xls")
           ^~~~~
[missing-reader] data_unknown_reader.nf:2:14: error: a file is named together with what reads it, as in `csv("d.csv")`
  input A[4] = "a.npy"
               ^~~~~~~
note: there are csv("d.csv"), npy("x.npy"), npz("x.npz", "W"), idx("images.idx"), safetensors("w.st", "W")
help: write `npy("a.npy")`
fix: write `npy("a.npy")`: `"a.npy"` becomes `npy("a.npy")`
[missing-reader] data_unknown_reader.nf:3:14: error: a file is named together with what reads it, as in `csv("d.csv")`
  input C[4] = "a.bin"
               ^~~~~~~
note: there are csv("d.csv"), npy("x.npy"), npz("x.npz", "W"), idx("images.idx"), safetensors("w.st", "W")
