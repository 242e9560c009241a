#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# container.sh ENGINE [--full] CHECKOUT COMMAND...: runs a command in an image made from the
# Dockerfile, which is built when it is not there. Same paths and the same user as outside.
set -u
engine=$1
shift
target=base
[ "$1" = --full ] && { target=full; shift; }
checkout=$1
shift

key=$(cat "$checkout/Dockerfile" "$checkout"/scripts/toolbox/packages.* | sha256sum | cut -c 1-12)
image=krama-toolbox:$target-$key
if ! "$engine" image inspect "$image" >/dev/null 2>&1; then
  echo "toolbox: building the image $image (a few minutes)" >&2
  if ! "$engine" build --target "$target" -t "$image" "$checkout" >&2; then
    echo "toolbox: $engine could not build the Dockerfile; see above. What to do: check the" \
      "network, or set KRAMA_TOOLBOX=root (as root, on Debian) to do without containers" >&2
    exit 1
  fi
fi

mkdir -p "$KRAMA_CACHE/ccache" || exit 1
options=(--rm --init --workdir "$PWD" --network host --ipc host)
[ -t 0 ] && [ -t 1 ] && options+=(-it)
if [ "$engine" = podman ]; then
  options+=(--userns keep-id)
else
  options+=(--user "$(id -u):$(id -g)")
fi
IFS=: read -r -a more <<<"${KRAMA_BIND:-}"
declare -A seen=()
for folder in "$checkout" "$KRAMA_CACHE" "$PWD" "${more[@]}"; do
  [ -z "${seen[$folder/]:-}" ] || continue  # an engine refuses the same volume twice
  seen[$folder/]=1
  case $folder in
    / | /usr | /usr/* | /etc | /etc/* | /bin | /lib | /lib64 | /sbin | /var | /proc/* | /sys/*) ;;
    /*) options+=(--volume "$folder:$folder") ;;
  esac
done
while IFS= read -r name; do
  case $name in
    OMP_* | KRAMA_* | MPIR_* | MPICH_* | OMPI_* | ONEDNN_* | DNNL_* | CTEST_* | NINJA_STATUS | \
      CMAKE_BUILD_PARALLEL_LEVEL | *SAN_OPTIONS | CI | TERM | COLUMNS | VERBOSE | *_proxy)
      options+=(--env "$name") ;;
  esac
done < <(compgen -e)
exec "$engine" run "${options[@]}" \
  --env HOME="$KRAMA_CACHE" --env CCACHE_DIR="$KRAMA_CACHE/ccache" \
  --env CCACHE_BASEDIR="$checkout" --env CCACHE_NOHASHDIR=1 \
  --env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime \
  --env OMP_NUM_THREADS="${OMP_NUM_THREADS:-$(nproc)}" --env OMP_PROC_BIND=false \
  --env KRAMA_TOOLBOX=native "$image" "$@"
