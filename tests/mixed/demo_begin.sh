# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# What tests of the language model begin with; they are called with LAUNCH FOLDER and source this. Sets
# launch, folder, work (a folder that goes away, with a small text in it), failed and fail MESSAGE.
set -u
launch=$1
folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }

for _ in $(seq 200); do echo "The quick brown fox jumps over the lazy dog, again and again."; done >"$work/text"
