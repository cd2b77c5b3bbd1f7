input X[3]
Y[i] = X[i] * 2
Z[i] = Y[i] + 1
hint split Y, Z
hint fuse Z, Y
hint schedule Y {"tile": [8, 8]}
hint schedule Z {"kind": "x", "knobs": {}, "version": 2}
# ---- diagnostics
[contradiction] contradicting_hints.nf:5:1: error: `Z` and `Y` can't be both fused and split
  hint fuse Z, Y
  ^~~~~~~~~~~~~~
contradicting_hints.nf:4:1: note: the other hint
  hint split Y, Z
  ^~~~~~~~~~~~~~~
[bad-attribute] contradicting_hints.nf:6:17: error: a schedule has a kind and knobs
  hint schedule Y {"tile": [8, 8]}
                  ^~~~~~~~~~~~~~~~
note: as in `hint schedule Y { kind = elementwise; vector = axis0; lanes = 64 }`
note: `neoflow show --stage scheduled` prints a schedule of every kernel
[bad-attribute] contradicting_hints.nf:7:17: error: a schedule has a kind and knobs
  hint schedule Z {"kind": "x", "knobs": {}, "version": 2}
                  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
note: as in `hint schedule Y { kind = elementwise; vector = axis0; lanes = 64 }`
note: `neoflow show --stage scheduled` prints a schedule of every kernel
