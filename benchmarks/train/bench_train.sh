#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# bench_train.sh FOLDER: whole trainings to their goals; FOLDER holds the executables. What needs files
# that were not named (./toolbox bench --mnist FOLDER --text FILE train) is left out with a notice.
exec python3 "$(dirname "$0")/train.py" "$1"
