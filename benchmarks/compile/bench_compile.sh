#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# bench_compile.sh FOLDER: how long a user's translation unit takes to compile. Bars: the MLP example with
# krama::compiled in 15 s (header-only it is printed too); a model of 48 blocks at most 1.1 times one of 2
# (depth is a number, not part of a type).
exec python3 "$(dirname "$0")/compile_time.py" "$1/../../compile_commands.json"
