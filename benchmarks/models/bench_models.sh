#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# bench_models.sh FOLDER: training steps of the models against PyTorch; FOLDER holds the executable.
# KRAMA_BENCH_MODELS="vgg16 unet" times these only.
read -ra models <<<"${KRAMA_BENCH_MODELS:-}"
exec python3 "$(dirname "$0")/compare.py" "$1/bench_models" "${models[@]}"
