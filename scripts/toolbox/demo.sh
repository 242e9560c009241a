#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# demo.sh CHECKOUT [--guarded N] [OPTIONS...]: builds the language model twice (two instruction sets,
# two ways of rounding: stand-ins for two vendors) and trains one model across both in one mpiexec.
# --guarded 1: the second rank runs on the stand-in for a device, whose memory the host cannot touch.
set -u
root=$1
shift
# shellcheck source=scripts/toolbox/common.sh
. "$root/scripts/toolbox/common.sh"

with_data=0
guarded=0
words=()
while [ $# -gt 0 ]; do
  case $1 in
    --guarded=*) guarded=${1#*=} ;;
    --guarded)
      guarded=${2:-}
      [ $# -lt 2 ] || shift
      ;;
    *)
      words+=("$1")
      case $1 in
        --data | --data=*) with_data=1 ;;
        --help | -h)
          echo "  --guarded 1                       The second rank runs on a stand-in for a device: memory"
          echo "                                    that the host cannot touch, work done when waited for"
          ;;
      esac
      ;;
  esac
  shift
done
case $guarded in
  0 | 1) ;;
  *)
    echo "demo: --guarded is \"$guarded\"; wanted 0 or 1, the number of ranks" >&2
    exit 2
    ;;
esac
set -- "${words[@]}"

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
first=language_model.v3
second=language_model.native
what="for two instruction sets"
if [ "$guarded" = 1 ]; then
  second=language_model.guarded
  what="for the host and for a stand-in device"
fi
echo "Building the example $what (log: $log)"
if ! { configure openmp-release && build openmp-release $first $second; } >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "demo: the build failed; the whole log is $log" >&2
  exit 1
fi
programs=$root/build/openmp-release/examples/05_language_model
export OMP_NUM_THREADS=1
part=()
[ "$guarded" = 0 ] || part=(-env KRAMA_GROUP guarded -env KRAMA_TRANSPORT staged)
exec "$root/scripts/launch" \
  -n 1 -env ONEDNN_MAX_CPU_ISA AVX2 "$programs/$first" "$@" : \
  -n 1 "${part[@]}" "$programs/$second" "$@"
