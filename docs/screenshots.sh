#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/screenshots.sh [BIN]: draws docs/images anew with the programs of this folder (default: build/release/bin), without a display.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
bin=${1:-build/release/bin}
export QT_QPA_PLATFORM=${QT_QPA_PLATFORM:-offscreen}
shot() { # NAME NOTEBOOK VIEW EVENT THEME [OPTION...]
  local name=$1 notebook=$2 view=$3 event=$4 theme=$5
  shift 5
  # Of a first run: what earlier ones recorded would leave nothing to swap.
  NEOFLOW_RECORDS="$scratch/$name.sqlite" "$bin/neoflow-workbench" "$notebook" --view "$view" --after "$event" --theme "$theme" --screenshot "docs/images/$name.png" "$@"
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
shot author examples/welcome.nf author check light --select 'A[b, c' --inspect 'd(L)/d(W)'
shot author-dark examples/welcome.nf author check dark --select 'A[b, c' --inspect 'd(L)/d(W)'
shot explain examples/digits_capsnet.nf explain fusion dark --decision 3
shot explain-light examples/digits_capsnet.nf explain fusion light --decision 3
# As it is tuned: long enough that steps are profiled on a fast machine, too.
cp -r examples "$scratch"
long=$scratch/examples/digits_capsnet.nf
sed -i 's/epochs = 40/epochs = 400/' "$long"
shot tune "$long" tune profile dark --train --count 4 --select 'Votes[b, i'
shot tune-light "$long" tune profile light --train --count 4 --select 'Votes[b, i'
shot training "$long" author eval light --train --count 150 --cell 10
shot training-dark "$long" author eval dark --train --count 150 --cell 10
shot tensors examples/welcome.nf author tensor light --cell 8 --run
shot tensors-table examples/figure4.nf author tensor dark --cell 11 --run --values table
shot devices examples/welcome.nf devices devices dark
shot devices-light examples/welcome.nf devices devices light
