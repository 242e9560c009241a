#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# hip.sh CHECKOUT COMMAND...: runs a command in a root folder with a HIP compiler, which is made first
# (about 1 minute, 1.3 GB). It is Debian sid, because HIP 5 of Debian 13 fails on bfloat16. Exit code 77
# where the folder cannot be made. Of the vendor's libraries and of MPI only the headers are put there (8 MB
# to download, 4 MB on the disk): nothing is linked, and the libraries themselves take 4 GB.
set -u
here=$(cd "$(dirname "$0")" && pwd)
checkout=$1
shift
cache=$KRAMA_CACHE
root=$cache/hip-$(cat "$here/hip.sh" "$here"/packages.hip* | sha256sum | cut -c 1-12)
log=$cache/log/hip.log

say() { printf 'toolbox: %s\n' "$*" >&2; }

find_mirror() {
  local m=${KRAMA_DEBIAN_MIRROR:-}
  [ -n "$m" ] || m=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' | grep -v security | head -n 1)
  [ -n "$m" ] || m=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -n 's/^deb[[:space:]]\+\(\[[^]]*\][[:space:]]*\)\?\([^[:space:]]*\).*/\2/p' |
    grep -v security | head -n 1)
  case "$m" in '' | *ubuntu*) return 1 ;; esac
  printf '%s\n' "$m"
}

make_root() {  # FOLDER; in a mount namespace of its own
  local folder=$1 mirror d
  mirror=$(find_mirror) || { echo "no Debian mirror found; set KRAMA_DEBIAN_MIRROR"; return 1; }
  command -v debootstrap >/dev/null ||
    { apt-get update && apt-get install -y --no-install-recommends debootstrap; } || return 1
  debootstrap --variant=minbase sid "$folder" "$mirror" /usr/share/debootstrap/scripts/sid || return 1
  for d in proc sys dev; do mount --rbind "/$d" "$folder/$d" || return 1; done
  [ -e /etc/resolv.conf ] && cp -L /etc/resolv.conf "$folder/etc/"
  apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|Retries)' >"$folder/etc/apt/apt.conf.d/50machine"
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    mkdir -p "$folder/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
  fi
  # The Release file may have expired where the mirror is a snapshot.
  printf 'deb [check-valid-until=no] %s sid main\n' "$mirror" >"$folder/etc/apt/sources.list"
  # shellcheck disable=SC2046
  chroot "$folder" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    LC_ALL=C.UTF-8 sh -c 'apt-get update && apt-get install -y --no-install-recommends "$@"' sh \
    $(cat "$here/packages.hip") || return 1
  # Where they cannot be had, the check says which doors it could not compile.
  # shellcheck disable=SC2046
  chroot "$folder" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 sh -c '
    mkdir /var/tmp/headers && cd /var/tmp/headers && apt-get -o APT::Sandbox::User=root download "$@"
    for p in *.deb; do
      [ ! -e "$p" ] || dpkg-deb --fsys-tarfile "$p" | tar -x -C / --wildcards "*/include/*"
    done
    rm -r /var/tmp/headers' sh \
    $(cat "$here/packages.hip_headers")
  return 0
}
export here log cache
export -f make_root find_mirror

if [ ! -d "$root" ]; then
  if [ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null; then
    say "no HIP compiler: making a root folder with one needs root rights and mounts"
    exit 77
  fi
  mkdir -p "$cache/log"
  exec 9>"$cache/hip.lock"
  flock -n 9 || { say "waiting for another toolbox that makes the environment"; flock 9; }
fi
if [ ! -d "$root" ]; then
  say "making an environment with a HIP compiler (about 1 minute) in $root"
  rm -rf --one-file-system "$cache"/hip-*.tmp
  if ! unshare --mount --propagation private bash -c 'make_root "$1"' hip "$root.tmp" >"$log" 2>&1; then
    tail -n 8 "$log" >&2
    say "no HIP compiler: the environment could not be made (log: $log)"
    rm -rf --one-file-system "$root.tmp"
    exit 77
  fi
  mv "$root.tmp" "$root" || exit 1
  exec 9>&-
fi

enter='
  set -e
  root=$1; shift
  for d in proc sys dev; do mount --rbind "/$d" "$root/$d"; done
  for d in "$KRAMA_CHECKOUT" "$KRAMA_CACHE" /tmp; do mkdir -p "$root$d"; mount --rbind "$d" "$root$d"; done
  exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    KRAMA_CACHE="$KRAMA_CACHE" HIP_PLATFORM=amd /bin/sh -c "cd \"\$0\" && exec \"\$@\"" "$KRAMA_CHECKOUT" "$@"'
export KRAMA_CHECKOUT=$checkout
exec unshare --mount --propagation private bash -c "$enter" toolbox "$root" "$@"
