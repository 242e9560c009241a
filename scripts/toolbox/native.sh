#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# native.sh CHECKOUT COMMAND...: runs a command with the machine's own dependencies.
checkout=$1
shift
# Another clone compiles the same things: their results are shared whatever the clone's path.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$checkout} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)} OMP_PROC_BIND=${OMP_PROC_BIND:-false}
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}
exec "$@"
