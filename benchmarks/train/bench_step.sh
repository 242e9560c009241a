#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# bench_step.sh FOLDER: training steps against PyTorch; FOLDER holds the executable.
exec python3 "$(dirname "$0")/compare.py" "$1/bench_step"
