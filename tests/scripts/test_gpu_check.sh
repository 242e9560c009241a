#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# test_gpu_check.sh KOKKOS_PREFIX [--whole]: what scripts/gpu_check.sh says on a machine without a GPU: to
# wrong arguments, and to a Kokkos without a GPU back end. --whole: the whole script, on the CPU.
set -u
script=$(cd "$(dirname "$0")/../.." && pwd)/scripts/gpu_check.sh
prefix=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }
unset Kokkos_ROOT KOKKOS_SOURCE

if [ "${2:-}" = --whole ]; then
  Kokkos_ROOT=$prefix "$script" --allow-host --build "$work/build" --seconds 3300 --jobs 2 | tee "$work/log"
  [ "${PIPESTATUS[0]}" = 0 ] || fail "the whole script did not pass"
  tail -n 1 "$work/log" | grep -q "passed$" || fail "the last line is not the table's end"
  for row in "build tests" "gradient checks" "unit tests: train" "language model: one host rank" \
    "language model: host and CPU" "product-f32" "attention-bf16" "bench: gpt128 step"; do
    grep -q "^ *$row" "$work/log" || fail "no row \"$row\" in the table"
  done
  exit $failed
fi

# expect CODE TEXT OPTIONS...: one line, and that code.
expect() {
  local code=$1 text=$2 found
  shift 2
  timeout 60 "$script" --build "$work/build" "$@" >"$work/out" 2>"$work/log"
  found=$?
  [ $found = "$code" ] || fail "$*: wanted code $code, found $found: $(cat "$work/log")"
  grep -q -- "$text" "$work/log" || fail "$*: no \"$text\" in: $(cat "$work/log")"
  [ "$(wc -l <"$work/log")" = 1 ] || fail "$*: not one line: $(cat "$work/log")"
  [ ! -s "$work/out" ] || fail "$*: something was run: $(cat "$work/out")"
}
expect 2 "set Kokkos_ROOT"
expect 2 "unknown option \"--bogus\"" --bogus
expect 2 "seconds is \"soon\"; wanted a number" --seconds soon
expect 2 "jobs is \"0\"; wanted a number" --jobs 0
expect 2 "there is no \"everything\"" --units tensor,everything
expect 2 "data wants a value" --data
expect 2 "no such file" --data "$work/nothing"
Kokkos_ROOT=$work expect 2 "no installed Kokkos there"
KOKKOS_SOURCE=$work expect 2 "no sources of Kokkos there"
Kokkos_ROOT=$prefix expect 3 "no GPU back end: the Kokkos in $prefix is for"

# A Kokkos for GPUs on a machine without one: as far as the search for it.
for backend in CUDA HIP; do
  mkdir -p "$work/$backend/lib/cmake/Kokkos"
  echo "set(Kokkos_DEVICES $backend;SERIAL)" >"$work/$backend/lib/cmake/Kokkos/KokkosConfigCommon.cmake"
  if ! nvidia-smi >/dev/null 2>&1 && ! rocminfo >/dev/null 2>&1; then
    Kokkos_ROOT=$work/$backend expect 3 "is for $backend, but no such GPU is found here"
  fi
done
"$script" --help | grep -q -- "--allow-host" || fail "--help does not name the options"
[ $failed = 0 ] && echo "all as it should be"
exit $failed
