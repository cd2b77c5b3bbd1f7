#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How ./run and ./test install what is missing: .ci/packages with a package system that only writes down what it was asked.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
mkdir "$box/bin"
for tool in bash cat grep sed env mktemp; do ln -s "$(command -v $tool)" "$box/bin/$tool"; done

tool() { printf '#!%s\n%s\n' "$(command -v bash)" "$2" >"$box/bin/$1"; chmod +x "$box/bin/$1"; }
tool dpkg-query 'shift 3; for p in "$@"; do case $p in have*) echo "installed $p";; gone*) echo "config-files $p";; *) bad=1;; esac; done; exit ${bad-0}'
tool apt-get 'echo "apt-get $* [${DEBIAN_FRONTEND-}]" >>"'"$box"'/log"'

# try WANTED_STATUS WANTED_LOG WANTED_OUTPUT PACKAGE...
try() {
  local wanted=$1 log=$2 output=$3 status=0 said
  shift 3
  : >"$box/log"
  said=$(env -u DEBIAN_FRONTEND PATH=$box/bin bash -c 'set -euo pipefail; source "$0"; need "$@"' "$root/.ci/packages" "$@" 2>&1) || status=$?
  if [ "$status" != "$wanted" ] || ! grep -qE "^$log\$" <(tr '\n' ';' <"$box/log"; echo) || [[ $said != *"$output"* ]]; then
    printf 'need %s: status %s, said "%s", log:\n' "$*" "$status" "$said"
    cat "$box/log"
    exit 1
  fi
}

install='apt-get update -qq \[\];apt-get install -y -qq --no-install-recommends .*'
tool id 'echo 0'
try 0 '' '' have1 have2
try 0 "$install missing \[noninteractive\];" 'Installing 1 Debian packages: missing' have1 missing
try 0 "$install gone missing \[noninteractive\];" 'Installing 2 Debian packages: gone missing' gone missing have2
tool id 'echo 1000'
try 3 '' 'apt-get install --no-install-recommends missing' have1 missing
tool sudo 'echo sudo >>"'"$box"'/log"; exec "$@"'
try 0 "sudo;apt-get update -qq \[\];sudo;apt-get install .* missing \[noninteractive\];" 'through sudo: missing' missing
tool apt-get 'exit 100'
try 100 'sudo;' 'Installing' missing
