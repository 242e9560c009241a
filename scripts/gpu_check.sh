#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# gpu_check.sh [OPTIONS]: builds Krama for the GPU of this machine and runs there the unit tests, the gradient
# checks, the language model on the GPU, a job of one GPU and one CPU executable in one mpiexec, and a
# bench. The table comes last. Needs no network; what it needs is found by CMake (CMAKE_PREFIX_PATH).
#
#   Kokkos_ROOT=FOLDER      a Kokkos that was installed for this GPU, or
#   KOKKOS_SOURCE=FOLDER    its sources (5.0 or newer), built first for the GPU that is found
#
#   --build FOLDER    where to build (default: build/gpu_check); logs go to FOLDER/gpu_check
#   --seconds N       what does not fit into N seconds is left out (default 360; building Kokkos
#                     does not count)
#   --jobs N          compilers at a time (default: one a core)
#   --units LIST      unit tests to build and run (default: tensor,kernels,optim,nn,program,comm,train)
#   --data FILE       a text to learn (default: this repository's own documentation)
#   --allow-host      a Kokkos without a GPU back end will do: tries the script itself on a CPU
#
# Exit code: 0 all passed, 1 something failed, 2 wrong arguments, 3 no GPU back end or no GPU.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/gpu_check
seconds=360
jobs=$(nproc)
units=tensor,kernels,optim,nn,program,comm,train
data=
allow_host=0

stop() {  # CODE LINE
  printf 'gpu_check: %s\n' "$2" >&2
  exit "$1"
}
number() {  # OPTION VALUE
  case $2 in '' | *[!0-9]* | 0) stop 2 "$1 is \"$2\"; wanted a number above 0" ;; esac
}
while [ $# -gt 0 ]; do
  case $1 in
    --build | --seconds | --jobs | --units | --data)
      [ $# -ge 2 ] || stop 2 "$1 wants a value"
      case $1 in
        --build) build=$(realpath -m "$2") ;;
        --seconds) number "$1" "$2" && seconds=$2 ;;
        --jobs) number "$1" "$2" && jobs=$2 ;;
        --units) units=$2 ;;
        --data) data=$2 ;;
      esac
      shift
      ;;
    --allow-host) allow_host=1 ;;
    -h | --help)
      sed -n '5,/^set -u/{/^set/d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *) stop 2 "unknown option \"$1\"; --help lists the options" ;;
  esac
  shift
done
for unit in ${units//,/ }; do
  case $unit in tensor | kernels | optim | nn | program | comm | train) ;; *) stop 2 "--units: there is no \"$unit\"" ;; esac
done
logs=$build/gpu_check
[ -z "$data" ] || [ -r "$data" ] || stop 2 "--data $data: no such file"

# --- which Kokkos, which GPU ------------------------------------------------------------------

# Devices of an installed Kokkos, "CUDA;OPENMP".
devices_of() {  # PREFIX
  local file
  for file in "$1"/lib*/cmake/Kokkos/KokkosConfigCommon.cmake "$1"/lib/*/cmake/Kokkos/KokkosConfigCommon.cmake; do
    [ -r "$file" ] && sed -n 's/^set(Kokkos_DEVICES \(.*\))/\1/Ip' "$file" | tr -d '"' && return
  done
}
nvidia_gpu() { nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>/dev/null | head -n 1; }
amd_gpu() { rocminfo 2>/dev/null | sed -n 's/^ *Name: *\(gfx[0-9a-f]*\).*/\1/p' | head -n 1; }

# Kokkos' option for a compute capability or a gfx name.
kokkos_arch() {
  case $1 in
    7.0) echo VOLTA70 ;; 7.5) echo TURING75 ;; 8.0) echo AMPERE80 ;; 8.6) echo AMPERE86 ;;
    8.9) echo ADA89 ;; 9.0) echo HOPPER90 ;; 10.0) echo BLACKWELL100 ;; 12.0) echo BLACKWELL120 ;;
    gfx906) echo AMD_GFX906 ;; gfx908) echo AMD_GFX908 ;; gfx90a) echo AMD_GFX90A ;;
    gfx940) echo AMD_GFX940 ;; gfx942) echo AMD_GFX942 ;; gfx1030) echo AMD_GFX1030 ;;
    gfx1100) echo AMD_GFX1100 ;; gfx1201) echo AMD_GFX1201 ;;
  esac
}

build_kokkos() {
  local options=(-DKokkos_ENABLE_SERIAL=ON -DKokkos_ENABLE_OPENMP=ON) arch compiler=c++
  if [ -n "$(nvidia_gpu)" ]; then
    arch=$(kokkos_arch "$(nvidia_gpu | cut -d , -f 2 | tr -d ' ')")
    options+=(-DKokkos_ENABLE_CUDA=ON)
    compiler=$KOKKOS_SOURCE/bin/nvcc_wrapper
  elif [ -n "$(amd_gpu)" ]; then
    arch=$(kokkos_arch "$(amd_gpu)")
    options+=(-DKokkos_ENABLE_HIP=ON)
    compiler=hipcc
  elif [ $allow_host = 0 ]; then
    stop 3 "no GPU found (neither nvidia-smi nor rocminfo names one)"
  fi
  [ -z "${arch:-}" ] || options+=("-DKokkos_ARCH_$arch=ON")
  Kokkos_ROOT=$build/kokkos
  echo "building Kokkos with ${options[*]} (log: $logs/kokkos.log)"
  { cmake -S "$KOKKOS_SOURCE" -B "$build/kokkos-build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_STANDARD=20 -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_INSTALL_PREFIX="$Kokkos_ROOT" \
    "${options[@]}" &&
    cmake --build "$build/kokkos-build" -j "$jobs" --target install; } >"$logs/kokkos.log" 2>&1 ||
    { tail -n 20 "$logs/kokkos.log" >&2; stop 1 "Kokkos did not build; the log is $logs/kokkos.log"; }
}

if [ -n "${Kokkos_ROOT:-}" ]; then
  [ -n "$(devices_of "$Kokkos_ROOT")" ] || stop 2 "Kokkos_ROOT=$Kokkos_ROOT: no installed Kokkos there"
elif [ -n "${KOKKOS_SOURCE:-}" ]; then
  [ -x "$KOKKOS_SOURCE/bin/nvcc_wrapper" ] || stop 2 "KOKKOS_SOURCE=$KOKKOS_SOURCE: no sources of Kokkos there"
  mkdir -p "$logs" && build_kokkos
else
  stop 2 "set Kokkos_ROOT (an installed Kokkos) or KOKKOS_SOURCE (its sources); --help says more"
fi
devices=$(devices_of "$Kokkos_ROOT")
case ";$devices;" in
  *";CUDA;"*)
    backend=CUDA gpu=$(nvidia_gpu)
    compiler=$Kokkos_ROOT/bin/nvcc_wrapper
    [ -x "$compiler" ] || compiler=$(command -v nvcc_wrapper)
    ;;
  *";HIP;"*)
    backend=HIP gpu=$(amd_gpu)
    compiler=$(command -v hipcc || command -v amdclang++)
    ;;
  *)
    [ $allow_host = 1 ] ||
      stop 3 "no GPU back end: the Kokkos in $Kokkos_ROOT is for $devices only; nothing was run (--allow-host tries the script)"
    backend=host gpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    compiler=$(command -v c++)
    ;;
esac
[ -n "$gpu" ] || stop 3 "the Kokkos in $Kokkos_ROOT is for $backend, but no such GPU is found here"
[ -n "$compiler" ] || stop 2 "no compiler for $backend: nvcc_wrapper of Kokkos, or hipcc, must be on the PATH"
mkdir -p "$logs" || exit 1

# --- steps and their table --------------------------------------------------------------------

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_PROC_BIND=false KRAMA_QUIET=1 KRAMA_PROGRESS=off
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
begin=$SECONDS
rows=()
failed=0
left() { echo $((begin + seconds - SECONDS)); }
row() { rows+=("$(printf '%-34s %-9s %7s  %s' "$1" "$2" "$3" "$4")"); }

# step NAME LIMIT PATTERN COMMAND...: a row of the table; its figure is what PATTERN (sed, with one group)
# finds last in the output.
step() {
  local name=$1 limit=$2 pattern=$3 log from=$SECONDS status figure
  shift 3
  log=$logs/$(tr -c 'a-z0-9\n' _ <<<"$name").log
  [ "$(left)" -gt "$limit" ] || limit=$(left)
  if [ "$limit" -lt 5 ]; then
    row "$name" "left out" "" "no time was left of $seconds s"
    failed=1
    return 1
  fi
  printf '== %s ==\n' "$name"
  timeout -k 5 "$limit" "$@" >"$log" 2>&1
  status=$?
  figure=$(sed -nE "s/.*$pattern.*/\1/p" "$log" | tail -n 1)
  if [ $status = 0 ]; then
    row "$name" passed "$((SECONDS - from)) s" "$figure"
    return 0
  fi
  failed=1
  tail -n 25 "$log"
  [ $status != 124 ] || figure="not finished after $limit s"
  row "$name" FAILED "$((SECONDS - from)) s" "${figure:-see $log}"
  return 1
}
missing() { row "$1" "left out" "" "$2"; }

asserted='(All tests passed .*)'
if command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
mpi=ON
{ command -v mpicxx && command -v mpiexec; } >/dev/null || mpi=OFF
configure=(cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=$compiler"
  "-DKokkos_ROOT=$Kokkos_ROOT" -DKRAMA_ENABLE_TESTS=ON -DKRAMA_ENABLE_EXAMPLES=ON
  -DKRAMA_ENABLE_BENCHMARKS=ON -DKRAMA_ENABLE_MPI=$mpi -DKRAMA_INSTALL=OFF
  "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=$([ $backend = host ] && echo OFF || echo ON)")
build_them=(cmake --build "$build" -j "$jobs" --target)
has_target() { [ -n "$(cmake --build "$build" --target help 2>/dev/null | grep -w "$1")" ]; }

step "configure" 60 "written to: (.*)" "${configure[@]}" ||
  rm -f "$build/CMakeCache.txt"  # what failed must not decide the next time
if [ $failed = 0 ]; then
  programs=(bench_device bench_step)
  has_target language_model.device && programs+=(language_model.device language_model.host)
  step "build programs" "$seconds" "(no figure)" "${build_them[@]}" "${programs[@]}"

  # program, comm and train are tests of several ranks.
  targets=()
  for unit in ${units//,/ }; do
    case $unit in
      program | comm | train) [ $mpi = OFF ] || targets+=("krama_test_${unit}_mpi") ;;
      *) targets+=("krama_test_$unit") ;;
    esac
  done
  step "build tests" $(($(left) - 100)) "(no figure)" "${build_them[@]}" "${targets[@]}"
  for target in "${targets[@]}"; do
    test=$build/$target
    [ -x "$test" ] || continue
    unit=${target#krama_test_}
    case $unit in
      nn) step "gradient checks and layers" 120 "$asserted" "$test" ;;
      *_mpi) step "unit tests: ${unit%_mpi}, two ranks" 120 "$asserted" "$root/scripts/launch" -n 2 "$test" ;;
      *) step "unit tests: $unit" 60 "$asserted" "$test" ;;
    esac
  done
  [ $mpi = ON ] || missing "unit tests: ranks" "there is no MPI here"
fi

if [ -z "$data" ]; then
  data=$logs/text
  cat "$root"/docs/*.md "$root"/docs/adr/*.md "$root"/README.md >"$data"
fi
small=(--data "$data" --generate 0 --minutes 0.25)
[ $backend = host ] && small+=(--layers 1 --features 32 --heads 2 --context 32 --minutes 0.1)
model=$build/examples/05_language_model
learned='validation loss ([0-9.]+ nats per byte)'
if [ -x "$model/language_model.device" ]; then
  export KRAMA_PROGRESS=plain
  step "language model: one $backend rank" 60 "$learned" \
    "$model/language_model.device" "${small[@]}" --out "$logs/run_one"
  if [ $mpi = ON ] && [ -x "$model/language_model.host" ]; then
    step "language model: $backend and CPU" 60 "$learned" "$root/scripts/launch" \
      -n 1 -env KRAMA_GROUP device "$model/language_model.device" "${small[@]}" --out "$logs/run_mixed" : \
      -n 1 -env KRAMA_GROUP host "$model/language_model.host" "${small[@]}" --out "$logs/run_mixed"
  else
    missing "language model: $backend and CPU" "there is no MPI here"
  fi
else
  missing "language model" "it was not built (CLI11 is needed)"
fi

bench=$build/benchmarks
if [ -x "$bench/kernels/bench_device" ]; then
  if step "bench: device" 60 "(no figure)" "$bench/kernels/bench_device" 0.3; then
    while read -r _ name figure; do row "  $name" "" "" "$figure"; done < <(grep '^FIGURE ' "$logs/bench__device.log")
  fi
fi
for config in gpt128 gpt384; do
  [ -x "$bench/train/bench_step" ] || break
  if [ $backend = host ] && [ $config = gpt384 ]; then continue; fi
  step "bench: $config step" 30 '"median_ms":([0-9.]+)' "$bench/train/bench_step" $config 10
  torch_device=cuda  # ROCm's PyTorch calls it so, too
  [ $backend = host ] && torch_device=cpu
  if ! python3 -c 'import torch' 2>/dev/null; then
    missing "bench: $config step, PyTorch" "Python has no torch here"
  else
    step "bench: $config step, PyTorch" 60 '"median_ms": ([0-9.]+)' \
      python3 "$root/benchmarks/train/peer_torch.py" $config 10 fused $torch_device
  fi
done

# --- the table --------------------------------------------------------------------------------
printf '\ngpu_check: %s, %s\n' "$backend" "$gpu"
printf 'date %s, commit %s, Kokkos for %s, %s\n' "$(date -u +%F)" \
  "$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)" "$devices" \
  "$("$compiler" --version 2>/dev/null | grep -i -m 1 -e release -e version -e gcc -e c++)"
[ $backend != host ] || echo "*** a CPU stood in for the GPU: this tries the script and says nothing about GPUs ***"
printf '%-34s %-9s %7s  %s\n' step result time figure
printf '%s\n' "${rows[@]}"
printf 'in all %d s; %s\n' $((SECONDS - begin)) "$([ $failed = 0 ] && echo passed || echo FAILED)"
exit $failed
