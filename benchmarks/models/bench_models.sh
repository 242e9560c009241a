#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# bench_models.sh FOLDER: training steps of the models against PyTorch; FOLDER holds the executable.
exec python3 "$(dirname "$0")/compare.py" "$1/bench_models"
