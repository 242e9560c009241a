#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Times compilations with the project's own flags, without ccache. See bench_compile.sh."""

import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MLP = ROOT / "examples/01_mlp/main.cpp"
DEPTH = pathlib.Path(__file__).resolve().parent / "depth.cpp"
ROUNDS = 3
COMPILED = "-DKRAMA_COMPILED"


def command_for(database):
    """The compiler call of the MLP example (with the compiled part), without launcher, input and output."""
    for entry in json.loads(pathlib.Path(database).read_text()):
        if pathlib.Path(entry["file"]) == MLP:
            words = shlex.split(entry["command"])
            words = words[1:] if words[0].endswith("ccache") else words
            cut = words.index("-o")
            return [w for w in words[:cut] if w != str(MLP)], entry["directory"]
    raise SystemExit("the MLP example is not in the compilation database; configure with examples")


def seconds(words, folder, source, *defines):
    begin = time.perf_counter()
    subprocess.run(
        [*words, *defines, "-o", "/dev/null", "-c", str(source)], cwd=folder, check=True
    )
    return time.perf_counter() - begin


def main():
    words, folder = command_for(sys.argv[1])
    alone = [w for w in words if w != COMPILED]
    if alone == words:
        raise SystemExit("the MLP example is not built with krama::compiled")
    header_only, mlp, few, many = [], [], [], []
    for _ in range(ROUNDS):
        header_only.append(seconds(alone, folder, MLP))
        mlp.append(seconds(words, folder, MLP))
        few.append(seconds(words, folder, DEPTH, "-DBLOCKS=2"))
        many.append(seconds(words, folder, DEPTH, "-DBLOCKS=48"))
    print(f"mlp example, header-only: {statistics.median(header_only):.1f} s (no bar)")
    figures = [
        ("compile mlp example [s]", statistics.median(mlp), 15.0),
        ("compile 48 blocks / 2 blocks", statistics.median(many) / statistics.median(few), 1.1),
    ]
    missed = 0
    for name, figure, bound in figures:
        met = figure <= bound
        missed += not met
        print(f"BAR {name}: {figure:.3f} bound {bound} {'met' if met else 'missed'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
