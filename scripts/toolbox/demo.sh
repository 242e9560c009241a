#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# demo.sh CHECKOUT [OPTIONS...]: builds the language model twice (two instruction sets, two ways of
# rounding: stand-ins for two vendors) and trains one model across both in one mpiexec.
set -u
root=$1
shift
# shellcheck source=scripts/toolbox/common.sh
. "$root/scripts/toolbox/common.sh"

with_data=0
for word in "$@"; do
  case $word in --data | --data=*) with_data=1 ;; esac
done

# The Jargon File, as Debian packages it: 1.8 MB of English.
find_text() {
  local packed=/usr/share/doc/jargon-text/jargon.txt.gz
  local text=$KRAMA_CACHE/data/jargon.txt
  if [ ! -s "$text" ]; then
    if [ ! -e "$packed" ]; then
      echo "demo: no text to train on; give one with --data FILE, or install jargon-text" >&2
      return 1
    fi
    mkdir -p "$(dirname "$text")" && gunzip -c "$packed" >"$text.$$" &&
      mv "$text.$$" "$text" || return 1
  fi
  echo "$text"
}

if [ $with_data = 0 ]; then
  text=$(find_text) || exit 1
  set -- --data "$text" "$@"
fi

log=$root/build/demo.log
mkdir -p "$root/build"
echo "Building the example for two instruction sets (log: $log)"
if ! { configure openmp-release && build openmp-release language_model.v3 language_model.native; } \
  >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "demo: the build failed; the whole log is $log" >&2
  exit 1
fi
programs=$root/build/openmp-release/examples/05_language_model
export OMP_NUM_THREADS=1
exec "$root/scripts/launch" \
  -n 1 -env ONEDNN_MAX_CPU_ISA AVX2 "$programs/language_model.v3" "$@" : \
  -n 1 "$programs/language_model.native" "$@"
