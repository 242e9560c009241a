#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# test_launch.sh LAUNCH ENDING [REPEATS]: scripts/launch must fail every time a rank ends badly, say
# what happened, leave nothing behind, and succeed otherwise.
set -u
launch=$1 ending=$2 repeats=${3:-20}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failures=0
wrong() {
  printf 'WRONG: %s\n' "$*"
  sed 's/^/  | /' "$out/stdout" "$out/stderr"
  failures=$((failures + 1))
}

# expect HOW CODES MESSAGE TIMES: CODES is a pattern of allowed exit codes
expect() {
  local how=$1 codes=$2 message=$3 i code
  for ((i = 1; i <= $4; ++i)); do
    "$launch" -n 2 "$ending" "$how" >"$out/stdout" 2>"$out/stderr" </dev/null
    code=$?
    [[ $code =~ ^($codes)$ ]] || wrong "$how, run $i: code $code, not $codes"
    grep -qE "$message" "$out/stderr" "$out/stdout" || wrong "$how, run $i: no \"$message\""
  done
  printf '%-10s %d runs\n' "$how" "$4"
}

not_0='[1-9][0-9]*'
export KRAMA_LAUNCH_GRACE=2
expect well 0 'all 2 ranks finished' 5
expect kill "$not_0" 'rank 1 .* killed by signal 9' "$repeats"
expect abort "$not_0" 'rank 1 .* killed by signal 6' "$repeats"
expect exit_5 "$not_0" 'rank 1 .* ended with code 5' "$repeats"
expect mpi_abort "$not_0" 'did not say that all ranks finished' "$repeats"
expect segv "$not_0" 'rank 1 .* killed by signal 11' 3
expect exit_0 "$not_0" 'rank 1 .* ended with code 0, but before the last word' 3
expect silent "$not_0" 'did not say that all ranks finished' 3
expect other_run "$not_0" 'did not say that all ranks finished' 3
expect late_7 "$not_0" 'rank 1 .* ended with code 7' 3
expect late_kill "$not_0" 'rank 1 .* killed by signal 9' 3
KRAMA_LAUNCH_TIMEOUT=2 expect hang 124 'not finished after 2 s' 1

# All ranks fail alike, and have said why: one line more, and their code.
"$launch" -n 2 bash -c 'exit 3' >"$out/stdout" 2>"$out/stderr"
[ $? = 3 ] || wrong "all ranks end with 3: another code"
[ "$(cat "$out/stderr")" = "launch: failed: every rank ended with code 3" ] ||
  wrong "all ranks end with 3: another message"

# Programs that know nothing of each other: mpiexec of another MPI than theirs gives such ones.
"$launch" -n 2 bash -c 'printf "krama: all 1 ranks finished [%s]\n" "$KRAMA_LAUNCH_NONCE"' \
  >"$out/stdout" 2>"$out/stderr" && wrong "2 ranks asked for, 1 finished: code 0"
grep -q "2 ranks were asked for" "$out/stderr" || wrong "2 ranks asked for, 1 finished: no message"
"$launch" -n two "$ending" >"$out/stdout" 2>"$out/stderr" && wrong "-n two: code 0"
KRAMA_MPIEXEC=/no/such/mpiexec "$launch" -n 2 "$ending" >"$out/stdout" 2>"$out/stderr" &&
  wrong "no mpiexec: code 0"
# Bytes pass through as they are.
"$launch" -n 1 "$ending" : -n 1 "$ending" >"$out/stdout" 2>"$out/stderr" || wrong "two parts"
[ "$(head -c 11 "$out/stdout" | od -An -c | tr -d ' ')" = '42%done\rk' ] ||
  wrong "bytes were changed"

left=$(grep -lz '^KRAMA_LAUNCH_NONCE=' /proc/[0-9]*/environ 2>/dev/null | while read -r f; do
  [ "$(readlink "${f%/environ}/exe")" = "$(readlink -f "$ending")" ] && echo "$f"; done)
[ -z "$left" ] || { failures=$((failures + 1)); echo "WRONG: still running: $left"; }
[ $failures = 0 ] && echo "launch: all as expected"
exit $((failures > 0))
