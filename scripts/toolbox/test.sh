#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# test.sh CHECKOUT [--full] [CTEST OPTIONS...]: builds everything and runs the tests; ctest's summary
# comes last. --full: the long tests too, and the other builds.
set -u
root=$1
shift
full=0
[ "${1:-}" = --full ] && { full=1; shift; }
# shellcheck source=scripts/toolbox/common.sh
. "$root/scripts/toolbox/common.sh"

# run_tests PRESET [CTEST OPTIONS...]
run_tests() {
  local preset=$1
  shift
  ctest --test-dir "$root/build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "$@"
}

# Rounding differs between builds; everything else of the tests must hold in all of them.
other_builds() {
  local status=0 preset lines=()
  for preset in openmp-debug asan openmpi one-rank; do
    say "$preset: build and test"
    if [ "$preset" = openmpi ] && ! command -v mpicxx.openmpi >/dev/null; then
      lines+=("$preset: left out, there is no mpicxx.openmpi")
    elif configure "$preset" && build "$preset" && run_tests "$preset" -LE 'full|package' "$@"; then
      lines+=("$preset: passed")
    else
      lines+=("$preset: FAILED")
      status=1
    fi
  done
  say "clang: compile only"
  if ! command -v clang++ >/dev/null; then
    lines+=("clang: left out, there is no clang++")
  elif configure clang && build clang krama_headers_alone; then
    lines+=("clang: passed")
  else
    lines+=("clang: FAILED")
    status=1
  fi
  say "clang-tidy on the headers"
  if ! command -v clang-tidy >/dev/null; then
    lines+=("clang-tidy: left out, it is not installed")
  elif "$root/scripts/tidy.sh" "$root/build/clang"; then
    lines+=("clang-tidy: passed")
  else
    lines+=("clang-tidy: FAILED")
    status=1
  fi
  say "other builds"
  printf '%s\n' "${lines[@]}"
  return $status
}

begin=$SECONDS
if [ $full = 1 ]; then
  other_builds "$@"
  others=$?
  selection=()
else
  others=0
  selection=(-LE full)
fi
say "openmp-release: configure and build ($(jobs_here) jobs)"
configure openmp-release || exit 1
build openmp-release || exit 1
say "openmp-release: tests (built after $((SECONDS - begin)) s)"
run_tests openmp-release "${selection[@]}" "$@"
status=$?
[ $others = 0 ] || echo "toolbox: some of the other builds failed; see above" >&2
[ $status = 0 ] && status=$others
exit $status
