#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# format.sh [--check] [FILES...]: formats every C++ file that git knows, or those named; --check only
# says which are not formatted. One version of clang-format: others disagree in details.
set -u
cd "$(dirname "$0")/.." || exit 1
wanted=19
options=(-i)
[ "${1:-}" = --check ] && { options=(--dry-run -Werror); shift; }
program=$(command -v "clang-format-$wanted" || command -v clang-format) || {
  echo "format.sh: no clang-format; call it as ./toolbox run scripts/format.sh" >&2
  exit 1
}
case $("$program" --version) in
  *"version $wanted."*) ;;
  *) echo "format.sh: wanted clang-format $wanted; ./toolbox run scripts/format.sh has it" >&2; exit 1 ;;
esac
if [ $# -gt 0 ]; then
  exec "$program" "${options[@]}" "$@"
fi
git ls-files -z '*.hpp' '*.cpp' | xargs -0 "$program" "${options[@]}"
