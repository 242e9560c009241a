#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Makes a Debian 13 root folder that holds every dependency of Krama, or adds the packages of the
# full environment to one. Its text and the package lists are the key under which roots are kept:
# a change here makes a new root. Called by root.sh, as root, in a mount namespace of its own.
#
#   recipe.sh base ROOT LOG      ROOT must not exist
#   recipe.sh full ROOT LOG
set -u
here=$(cd "$(dirname "$0")" && pwd)
what=$1 root=$2 log=$3
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
# The log has several steps; a failing one shows the end of its own part.
: >"$log"

fail() {
  printf 'toolbox: %s\n' "$1" >&2
  printf '  %s\n' "${@:2}" "The whole log: $log" >&2
  exit 1
}

# step TEXT ADVICE COMMAND...: runs the command with its output in the log; shows time passing.
step() {
  local text=$1 advice=$2 begin=$SECONDS line pid
  shift 2
  line=$(wc -l <"$log")
  printf '== %s: %s\n' "$text" "$*" >>"$log"
  "$@" >>"$log" 2>&1 </dev/null &
  pid=$!
  [ -t 2 ] || printf 'toolbox: %s ...\n' "$text" >&2
  while kill -0 "$pid" 2>/dev/null; do
    [ -t 2 ] && printf '\rtoolbox: %s ... %d s ' "$text" $((SECONDS - begin)) >&2
    sleep 1
  done
  if ! wait "$pid"; then
    [ -t 2 ] && printf '\n' >&2
    tail -n +$((line + 1)) "$log" | tail -n 12 | sed 's/^/  | /' >&2
    fail "failed: $text" "What to do: $advice"
  fi
  printf '%btoolbox: %s: done in %d s\n' "$([ -t 2 ] && printf '\\r')" "$text" \
    $((SECONDS - begin)) >&2
}

inside() { chroot "$root" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }

mount_system() {
  local d
  for d in proc sys dev; do mount --rbind "/$d" "$root/$d" || return 1; done
}

install_packages() {  # FILE: names, one a line
  # shellcheck disable=SC2046
  inside apt-get install -y --no-install-recommends $(cat "$1")
}

# The Debian mirror that this machine itself uses.
find_mirror() {
  local m=${KRAMA_DEBIAN_MIRROR:-}
  [ -n "$m" ] || m=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' | grep -v security | head -n 1)
  [ -n "$m" ] || m=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -n 's/^deb[[:space:]]\+\(\[[^]]*\][[:space:]]*\)\?\([^[:space:]]*\).*/\2/p' |
    grep -v security | head -n 1)
  case "$m" in
    '' | *ubuntu*)
      fail "no Debian mirror found in this machine's apt configuration" \
        "What to do: set KRAMA_DEBIAN_MIRROR to the address of one." ;;
  esac
  printf '%s\n' "$m"
}

get_debootstrap() {
  apt-get update && apt-get install -y --no-install-recommends debootstrap
}

bootstrap() {  # MIRROR
  local script=/usr/share/debootstrap/scripts/trixie
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
  debootstrap --variant=minbase trixie "$root" "$1" "$script"
}

# The mirror, proxy and certificates as this machine uses them.
configure_apt() {  # MIRROR
  [ -e /etc/resolv.conf ] && cp -L /etc/resolv.conf "$root/etc/"
  apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|Retries)' \
    >"$root/etc/apt/apt.conf.d/50machine"
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    mkdir -p "$root/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  fi
  printf 'deb %s trixie main\n' "$1" >"$root/etc/apt/sources.list"
  inside apt-get update
}

# Only sid has a usable Kokkos. Everything else of sid is pinned away. sid's Release file may have
# expired where the mirror is a snapshot.
add_sid() {  # MIRROR
  printf 'deb [check-valid-until=no] %s sid main\n' "$1" >"$root/etc/apt/sources.list.d/sid.list"
  printf 'Package: %s\nPin: release a=unstable\nPin-Priority: %s\n\n' '*' -1 'libkokkos*' 990 \
    >"$root/etc/apt/preferences.d/sid"
  inside apt-get update && inside apt-get install -y --no-install-recommends libkokkos-dev
}

install_kokkos() {  # MIRROR
  add_sid "$1" && return 0
  rm -f "$root/etc/apt/sources.list.d/sid.list" "$root/etc/apt/preferences.d/sid"
  echo "the mirror's sid suite gave no usable libkokkos-dev"
  [ -n "${KRAMA_DEB_DIR:-}" ] || return 1
  mkdir -p "$root/var/cache/kokkos"
  cp "$KRAMA_DEB_DIR"/libkokkos*.deb "$root/var/cache/kokkos/" || return 1
  inside apt-get update
  inside sh -c 'apt-get install -y --no-install-recommends /var/cache/kokkos/*.deb'
}

# Kokkos' CMake package names two archives that Debian does not ship (both parts are header-only).
mend_kokkos() {
  inside sh -c 'cd "$(dirname "$(find /usr/lib -name libkokkoscore.so | head -n 1)")" &&
    for l in algorithms simd; do [ -e libkokkos$l.a ] || ar rc libkokkos$l.a; done'
}

# Open MPI is there for one build of the full tests; MPICH stays the default.
keep_mpich() {
  inside sh -c 'update-alternatives --set mpirun /usr/bin/mpirun.mpich &&
    update-alternatives --set mpi /usr/bin/mpicc.mpich &&
    a=$(update-alternatives --get-selections | sed -n "s/^\(mpi-[^ ]*\) .*/\1/p") &&
    for n in $a; do
      update-alternatives --set $n "$(update-alternatives --list $n | grep mpich)" || exit 1
    done'
}

network="check the network and the apt mirror (apt-get update), then call toolbox again"
case "$what" in
  base)
    mirror=$(find_mirror) || exit 1
    command -v debootstrap >/dev/null ||
      step "installing debootstrap" "install the package debootstrap, then call toolbox again" \
        get_debootstrap
    step "bootstrapping Debian 13" "$network" bootstrap "$mirror"
    step "mounting /proc, /sys, /dev" "run as a user who may mount" mount_system
    step "reading package lists" "$network" configure_apt "$mirror"
    step "installing Kokkos from sid" \
      "put libkokkos-dev and its libkokkos package (.deb, 5.2.2) into a folder and set KRAMA_DEB_DIR to it" \
      install_kokkos "$mirror"
    step "installing compilers and libraries" "$network" install_packages "$here/packages.base"
    step "completing Kokkos' CMake package" "report this as a bug" mend_kokkos
    ;;
  full)
    step "mounting /proc, /sys, /dev" "run as a user who may mount" mount_system
    step "finishing interrupted installations" "delete $root" inside dpkg --configure -a
    step "reading package lists" "$network" inside apt-get update
    step "installing PyTorch and Open MPI" "$network" install_packages "$here/packages.full"
    step "keeping MPICH the default MPI" "report this as a bug" keep_mpich
    ;;
  *) fail "recipe.sh: unknown part $what" ;;
esac
