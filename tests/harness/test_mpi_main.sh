#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# test_mpi_main.sh LAUNCH TESTS: a test that fails on one rank, or hangs there, fails the whole run
# with its name and rank.
set -u
launch=$1 tests=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failures=0

expect() {  # FILTER MESSAGES...
  if "$launch" -n 3 "$tests" "$1" >"$out" 2>&1; then
    echo "WRONG: $1: code 0"
    failures=1
  fi
  for message in "${@:2}"; do
    grep -qE "$message" "$out" || { echo "WRONG: $1: no \"$message\" in:"; cat "$out"; failures=1; }
  done
}

expect '[failing]' '^---- rank 2 failed with code' 'mpi main: fails on the last rank' '2 != 2'
KRAMA_TEST_WATCHDOG=2 expect '[hanging]' \
  '\[rank 2\] "mpi main: never ends on the last rank" has run for 2 s: giving up'
exit $failures
