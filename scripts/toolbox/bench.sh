#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# bench.sh CHECKOUT [--mnist FOLDER] [--text FILE] [NAME...]: builds and runs benchmarks (all without a name; bench_gemm or gemm).
# A benchmark is an executable made from benchmarks/<folder>/<name>.cpp; where <name>.sh lies there,
# that is called with the folder of the executables instead (it may start ranks, or peers). The bars
# of all come last, one a line; the exit code is 1 if one is missed or a benchmark fails. What the options
# name is for those that learn from files; without them they leave that out.
set -u
root=$1
shift
# shellcheck source=scripts/toolbox/common.sh
. "$root/scripts/toolbox/common.sh"

names=()
while [ $# -gt 0 ]; do
  case $1 in
    --mnist | --text)
      if [ $# = 1 ] || [ ! -e "$2" ]; then
        echo "bench: $1 ${2:-}: there is no such file or folder" >&2
        exit 2
      fi
      export "KRAMA_BENCH_$(tr a-z A-Z <<<"${1#--}")=$(realpath "$2")"
      shift
      ;;
    -*)
      echo "bench: there is no option $1; there are --mnist FOLDER and --text FILE" >&2
      exit 2
      ;;
    *) names+=("$1") ;;
  esac
  shift
done
set -- "${names[@]}"

# They are set on some machines and make OpenBLAS, and all that stands on it, slower.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export OMP_NUM_THREADS=${KRAMA_BENCH_THREADS:-2} OMP_PROC_BIND=false

mapfile -t known < <(cd "$root/benchmarks" && find . -name 'bench_*.cpp' -o -name 'bench_*.sh' |
  sed 's|^\./||; s|\.[a-z]*$||' | sort -u)
chosen=()
for name in "$@"; do
  found=
  for one in "${known[@]}"; do
    if [ "${one##*/}" = "$name" ] || [ "${one##*/}" = "bench_$name" ]; then found=$one; fi
  done
  if [ -z "$found" ]; then
    echo "bench: there is no \"$name\"; there are: ${known[*]##*/}" >&2
    exit 2
  fi
  chosen+=("$found")
done
[ $# = 0 ] && chosen=("${known[@]}")

targets=()
for one in "${chosen[@]}"; do
  [ -e "$root/benchmarks/$one.cpp" ] && targets+=("${one##*/}")
done
say "building ${chosen[*]##*/}"
configure openmp-release || exit 1
[ ${#targets[@]} = 0 ] || build openmp-release "${targets[@]}" || exit 1

logs=$root/build/bench
mkdir -p "$logs"
failed=()
for one in "${chosen[@]}"; do
  name=${one##*/}
  programs=$root/build/openmp-release/benchmarks/${one%/*}
  say "$name"
  command=("$programs/$name")
  [ -e "$root/benchmarks/$one.sh" ] && command=("$root/benchmarks/$one.sh" "$programs")
  (cd "$root" && KRAMA_ROOT=$root "${command[@]}") 2>&1 | tee "$logs/$name.log"
  [ "${PIPESTATUS[0]}" = 0 ] || failed+=("$name")
done

say "bars: name, figure, bound, met or missed"
for one in "${chosen[@]}"; do
  grep -h '^BAR ' "$logs/${one##*/}.log"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "bench: a bar was missed, or the program failed: ${failed[*]}" >&2
  exit 1
fi
