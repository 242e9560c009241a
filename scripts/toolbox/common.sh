# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
# shellcheck shell=bash
#
# What test.sh, demo.sh and bench.sh share. They run inside the environment; `root` is the checkout.

say() { printf '\n== %s ==\n' "$*"; }

# Compilers at a time: one a core, each with 1.5 GB.
jobs_here() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo 2>/dev/null)
  [ "${memory:-0}" -gt 0 ] && [ "$memory" -lt "$cores" ] && cores=$memory
  echo "${KRAMA_JOBS:-$cores}"
}

# configure PRESET [OPTIONS...]: in build/PRESET. A build folder that another environment (other
# paths, other compiler) configured is configured afresh.
configure() {
  local preset=$1 fresh=() stamp=$root/build/$1/.environment now
  shift
  now="${KRAMA_ENVIRONMENT:-native} $(c++ --version 2>/dev/null | head -n 1)"
  if [ -e "$root/build/$preset/CMakeCache.txt" ] && [ "$(cat "$stamp" 2>/dev/null)" != "$now" ]; then
    fresh=(--fresh)
  fi
  (cd "$root" && cmake "${fresh[@]}" --preset "$preset" "$@") || return 1
  echo "$now" >"$stamp"
}

# build PRESET [TARGETS...]
build() {
  local preset=$1
  shift
  cmake --build "$root/build/$preset" -j "$(jobs_here)" ${1:+--target "$@"}
}
