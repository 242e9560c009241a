# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Krama's environment as a container image. ./toolbox builds and uses it where docker or podman run;
# target "full" adds PyTorch (benchmarks against it) and Open MPI (one build of the full tests).
FROM debian:trixie AS base
ENV DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
COPY scripts/toolbox/packages.base /tmp/packages.base
# Only sid has a usable Kokkos; everything else of sid is pinned away.
RUN . /etc/os-release \
 && mirror=$(sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources | head -n 1) \
 && echo "deb [check-valid-until=no signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" \
    > /etc/apt/sources.list.d/sid.list \
 && printf 'Package: %s\nPin: release a=unstable\nPin-Priority: %s\n\n' '*' -1 'libkokkos*' 990 \
    > /etc/apt/preferences.d/sid \
 && apt-get update \
 && apt-get install -y --no-install-recommends libkokkos-dev $(cat /tmp/packages.base) \
 && rm -rf /var/lib/apt/lists/*
# Kokkos' CMake package names two archives that Debian does not ship (both parts are header-only).
RUN cd "$(dirname "$(find /usr/lib -name libkokkoscore.so | head -n 1)")" \
 && for l in algorithms simd; do [ -e libkokkos$l.a ] || ar rc libkokkos$l.a; done

FROM base AS full
COPY scripts/toolbox/packages.full /tmp/packages.full
RUN apt-get update \
 && apt-get install -y --no-install-recommends $(cat /tmp/packages.full) \
 && rm -rf /var/lib/apt/lists/* \
 && update-alternatives --set mpirun /usr/bin/mpirun.mpich \
 && update-alternatives --set mpi /usr/bin/mpicc.mpich \
 && for n in $(update-alternatives --get-selections | sed -n 's/^\(mpi-[^ ]*\) .*/\1/p'); do \
      update-alternatives --set $n "$(update-alternatives --list $n | grep mpich)" || exit 1; done

FROM base
