# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
# shellcheck shell=bash
#
# choose_environment: sets `environment` (native, docker, podman or root) and `reason`.
# Expects `parts`, the folder of this file, and `root`, the checkout.

# The machine's own dependencies are good enough when a small program configures, builds and runs.
# The answer is kept for a day, so that what is installed later is found.
native_works() {
  local cache=$KRAMA_CACHE key answer log
  command -v cmake ninja >/dev/null || return 1
  command -v mpiexec >/dev/null || return 1
  mkdir -p "$cache/log" || return 1
  key=$({ cat "$root/cmake/KramaDeps.cmake" "$parts"/probe/*; cmake --version; echo "$PATH"
    echo "${CMAKE_PREFIX_PATH:-} ${CXX:-}"; } | sha256sum | cut -c 1-12)
  answer=$cache/native-$key
  if [ -z "$(find "$answer" -mmin -1440 2>/dev/null)" ]; then
    log=$cache/log/native.log
    rm -rf "$cache/native-$key.build"
    if cmake -S "$parts/probe" -B "$cache/native-$key.build" -G Ninja >"$log" 2>&1 &&
      cmake --build "$cache/native-$key.build" >>"$log" 2>&1 &&
      "$cache/native-$key.build/probe" >>"$log" 2>&1; then
      echo yes >"$answer"
    else
      echo no >"$answer"
    fi
    rm -rf "$cache/native-$key.build"
  fi
  [ "$(cat "$answer")" = yes ]
}

# A client alone is not enough: its engine must answer.
engine_answers() { command -v "$1" >/dev/null && timeout 10 "$1" info >/dev/null 2>&1; }

find_engine() {
  for environment in docker podman; do
    if engine_answers "$environment"; then return 0; fi
  done
  return 1
}

choose_environment() {
  reason="KRAMA_TOOLBOX asks for it"
  case ${KRAMA_TOOLBOX:-} in
    native | root) environment=$KRAMA_TOOLBOX; return ;;
    docker)
      find_engine && return
      echo "toolbox: KRAMA_TOOLBOX=docker, but neither docker nor podman has an engine that answers" >&2
      exit 1
      ;;
    '') ;;
    *)
      echo "toolbox: KRAMA_TOOLBOX is \"$KRAMA_TOOLBOX\"; wanted native, docker or root" >&2
      exit 2
      ;;
  esac
  if native_works; then
    environment=native
    reason="CMake finds every dependency on this machine"
    return
  fi
  if find_engine; then
    reason="CMake does not find every dependency here, and the engine of $environment answers"
    return
  fi
  environment=root
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    reason="CMake does not find every dependency here, and no container engine answers"
    return
  fi
  cat >&2 <<'TEXT'
toolbox: no environment for Krama on this machine. One of these gives one:
  - install CMake 3.25, Ninja, a C++20 compiler, MPI, Kokkos 4.6, fmt 9, nlohmann_json 3.10 and
    Catch2 3 (or newer) so that CMake finds them (add prefixes to CMAKE_PREFIX_PATH);
  - install docker or podman, and see that its engine runs;
  - run this as root on a Debian-like machine (with apt-get), which makes a root folder.
TEXT
  exit 1
}
