#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# check_devices.sh CHECKOUT [cuda|hip] [OPTIONS...]: scripts/check_devices for one back end or both, each
# where its compiler is. What had no compiler is said last, as SKIPPED. Exit code: 1 if one failed, 77
# if nothing was compiled.
root=$1
shift
chosen=(cuda hip)
rest=()
for word in "$@"; do
  case $word in
    cuda | hip) chosen=("$word") ;;
    --list) exec python3 "$root/scripts/check_devices" --list ;;
    *) rest+=("$word") ;;
  esac
done

lines=()
failed=0 passed=0
for backend in "${chosen[@]}"; do
  command=(python3 "$root/scripts/check_devices" "$backend" "${rest[@]}")
  if [ "$backend" = hip ] && ! command -v hipcc >/dev/null && [ ! -x /opt/rocm/bin/hipcc ]; then
    "$root/scripts/toolbox/hip.sh" "$root" "${command[@]}"
  else
    "$root/toolbox" run "${command[@]}"
  fi
  case $? in
    0) passed=1 lines+=("$backend: passed") ;;
    77) lines+=("$backend: SKIPPED, nothing was compiled") ;;
    *) failed=1 lines+=("$backend: FAILED") ;;
  esac
done
printf '\n== check-devices ==\n'
printf '%s\n' "${lines[@]}"
[ $failed = 0 ] || exit 1
[ $passed = 1 ] || exit 77
