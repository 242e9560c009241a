#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# tidy.sh BUILD: clang-tidy over the units that include every header alone (BUILD/compile_commands.json).
set -u
build=$1
units=("$build"/headers_alone/*.cpp)
if [ ! -e "${units[0]}" ]; then
  echo "tidy.sh: $build has no headers_alone/; configure it with the tests on" >&2
  exit 1
fi
cd "$(dirname "$0")/.." || exit 1
printf '%s\0' "${units[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "$build" 2>&1 |
  grep -v -e 'warnings generated' -e 'Suppressed' -e 'Use -header-filter'
exit "${PIPESTATUS[1]}"
