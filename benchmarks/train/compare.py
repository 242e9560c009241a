#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Training steps of Krama against the fastest of PyTorch's forms, in turns (A B B A), medians.

usage: compare.py BENCH_STEP [CONFIG …]

Ends with a line for each bar, and a non-zero exit where one is missed. A peer that could not run is said
to be missing; one whose matrix product is slow is refused, because beating it would prove nothing.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from against_torch import bars_of, in_turns, medians, peaks  # noqa: E402

STEPS = {"gpt128": 15, "gpt384": 5, "mlp32": 1000, "mlp128": 400, "mlp1024": 100}
FORMS = ["eager", "fused", "compiled"]


def main():
    bench = sys.argv[1]
    configs = sys.argv[2:] or list(STEPS)
    peaks(bench)
    bars = []
    for config in configs:
        steps = str(STEPS[config])
        commands = {"krama": [bench, config, steps]}
        for form in FORMS:
            commands[form] = [sys.executable, str(HERE / "peer_torch.py"), config, steps, form]
        figures = medians(in_turns(config, commands), "median_ms")
        for name, value in figures.items():
            print(f"  {config:8} {name:9} {value:9.3f} ms")
        peers = {name: value for name, value in figures.items() if name != "krama"}
        if not peers or "krama" not in figures:
            bars.append((config, None, 1.0))
            continue
        best = min(peers, key=peers.get)
        bars.append((f"{config} vs {best}", figures["krama"] / peers[best], 1.0))
    return bars_of("train", bars)


if __name__ == "__main__":
    sys.exit(main())
