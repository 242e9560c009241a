#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Runs a command inside the root folder with Krama's dependencies, making the folder first when it
# is not there. The folder lies in the user's cache, keyed by the recipe, so later clones find it.
#
#   root.sh [--full] CHECKOUT COMMAND...
#
# The checkout, the cache folder, /tmp, the current folder and those of KRAMA_BIND (separated by
# colons) have the same paths inside. Nothing stays mounted afterwards.
set -u
here=$(cd "$(dirname "$0")" && pwd)
full=0
[ "$1" = --full ] && { full=1; shift; }
checkout=$1
shift

say() { printf 'toolbox: %s\n' "$*" >&2; }
key() { cat "$@" | sha256sum | cut -c 1-12; }

cache=$KRAMA_CACHE
root=$cache/root-$(key "$here/recipe.sh" "$here/packages.base")
full_marker=$root/etc/krama-full-$(key "$here/packages.full")
mkdir -p "$cache/log" "$cache/ccache" || exit 1

if [ "$(id -u)" != 0 ]; then
  say "the root folder needs root rights (chroot and mounts); call toolbox as root," \
    "or install docker or podman, or Krama's dependencies (README)"
  exit 1
fi
if ! unshare --mount true 2>/dev/null; then
  say "this machine does not allow mounts (unshare --mount fails; a container without" \
    "CAP_SYS_ADMIN?); use docker or podman, or install Krama's dependencies (README)"
  exit 1
fi

make_base() {
  local temporary=$root.tmp.$$
  # Left over by runs that were killed. Nothing is mounted in them: mounts were in a namespace.
  rm -rf --one-file-system "$cache"/root-*.tmp.*
  say "making the environment (about 2 minutes, 2 GB) in $root"
  if ! unshare --mount --propagation private \
    bash "$here/recipe.sh" base "$temporary" "$cache/log/base.log"; then
    rm -rf --one-file-system "$temporary"
    exit 1
  fi
  mv "$temporary" "$root" || exit 1
}

add_full() {
  say "adding PyTorch and Open MPI to the environment (a few minutes, 3 GB)"
  unshare --mount --propagation private \
    bash "$here/recipe.sh" full "$root" "$cache/log/full.log" || exit 1
  touch "$full_marker"
}

if [ ! -d "$root" ] || { [ "$full" = 1 ] && [ ! -e "$full_marker" ]; }; then
  exec 9>"$cache/lock"
  flock -n 9 || { say "waiting for another toolbox that makes the environment"; flock 9; }
  [ -d "$root" ] || make_base
  if [ "$full" = 1 ] && [ ! -e "$full_marker" ]; then add_full; fi
  exec 9>&-
fi

# What of the caller's environment has a meaning inside; everything else could only disturb.
keep=()
while IFS= read -r name; do
  case $name in
    OMP_* | KRAMA_* | CCACHE_* | MPIR_* | MPICH_* | OMPI_* | ONEDNN_* | DNNL_* | CTEST_* | \
      CMAKE_BUILD_PARALLEL_LEVEL | NINJA_STATUS | *SAN_OPTIONS | CI | TERM | COLUMNS | VERBOSE | \
      CXXFLAGS | LDFLAGS | GIT_* | SOURCE_DATE_EPOCH | *_proxy)
      keep+=("$name=${!name}") ;;
  esac
done < <(compgen -e)

binds=("$checkout" "$cache" /tmp)
IFS=: read -r -a more <<<"${KRAMA_BIND:-}"
for folder in "$PWD" "${more[@]}"; do
  case $folder in
    / | /usr | /usr/* | /etc | /etc/* | /bin | /lib | /lib64 | /sbin | /var | /proc/* | /sys/*)
      ;;  # the root has its own
    /*) binds+=("$folder") ;;
  esac
done
# nvcc, where the machine has it
[ -d /usr/local/cuda ] && binds+=("$(readlink -f /usr/local/cuda)")

enter='
  set -e
  root=$1 cwd=$2 n=$3; shift 3
  for d in proc sys dev; do mount --rbind "/$d" "$root/$d"; done
  for f in resolv.conf hosts; do
    [ -f "/etc/$f" ] && touch "$root/etc/$f" && mount --bind "/etc/$f" "$root/etc/$f"
  done
  for d in "${@:1:n}"; do
    [ -d "$d" ] || continue
    mkdir -p "$root$d"; mount --rbind "$d" "$root$d"
  done
  shift "$n"
  exec chroot "$root" /bin/sh -c "cd \"\$0\" && exec \"\$@\"" "$cwd" "$@"'
cuda=
if [ -d /usr/local/cuda ]; then
  cuda=:/usr/local/cuda/bin
  [ -e "$root/usr/local/cuda" ] || ln -s "$(readlink -f /usr/local/cuda)" "$root/usr/local/cuda"
fi
exec unshare --mount --propagation private bash -c "$enter" toolbox "$root" "$PWD" "${#binds[@]}" \
  "${binds[@]}" /usr/bin/env -i \
  HOME="$HOME" USER="${USER:-root}" LC_ALL=C.UTF-8 \
  PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin$cuda" \
  CCACHE_DIR="$cache/ccache" CCACHE_BASEDIR="$checkout" CCACHE_NOHASHDIR=1 \
  CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime \
  OMP_NUM_THREADS="$(nproc)" OMP_PROC_BIND=false "${keep[@]}" KRAMA_TOOLBOX=native "$@"
