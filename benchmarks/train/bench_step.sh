#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
exec python3 "$(dirname "$0")/compare.py" "$1/bench_step"
