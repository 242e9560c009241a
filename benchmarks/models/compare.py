#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Whole training steps of Krama's models against the fastest of PyTorch's forms, in turns (A B B A).

usage: compare.py BENCH_MODELS [MODEL …]

f32, AdamW, the same threads and batch. KRAMA_BENCH_ROUNDS sets the rounds (2), KRAMA_BENCH_STEPS the steps of a run.
Beside each figure stands the share of the machine's matrix peak (the faster of both sides' large products), three
forward passes taken for a step. Ends with a line for each bar, and a non-zero exit where one is missed. The bar of
the mean belongs to all models together: it is left out where some are named, and missed where one of them failed.
"""

import math
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from against_torch import ROUNDS, bars_of, in_turns, medians, peaks  # noqa: E402

STEPS = {"resnet18": 10, "resnet50": 4, "vgg16": 3, "wrn28_10": 3, "unet": 3, "gpt2": 5, "llama": 5}
IMAGES = {"resnet18", "resnet50", "vgg16", "wrn28_10", "unet"}


def main():
    bench = sys.argv[1]
    peak = max(peaks(bench))
    rounds = int(os.environ.get("KRAMA_BENCH_ROUNDS", ROUNDS))
    chosen = sys.argv[2:] or list(STEPS)
    unknown = [model for model in chosen if model not in STEPS]
    if unknown:
        raise SystemExit(f"compare: there is no model {unknown[0]}; there are: {' '.join(STEPS)}")
    bars, ratios = [], []
    for model in chosen:
        steps = os.environ.get("KRAMA_BENCH_STEPS", str(STEPS[model]))
        forms = ["eager", "fused", "compiled"] + (["channels_last"] if model in IMAGES else [])
        commands = {"krama": [bench, model, steps]}
        for form in forms:
            commands[form] = [sys.executable, str(HERE / "peer_torch.py"), model, steps, form]
        results = in_turns(model, commands, rounds)
        # Of each run the fastest step: whoever else uses the machine only ever adds.
        times, memory = medians(results, "min_ms"), medians(results, "peak_mib")
        peers = {name: value for name, value in times.items() if name != "krama"}
        if not peers or "krama" not in times:
            bars += [(f"{model} time", None, 1.0), (f"{model} memory", None, 1.0)]
            continue
        work = 3 * results["krama"][0]["forward_gflop"]
        for name, value in times.items():
            share = 100 * work / (1e-3 * value) / peak
            print(f"  {model:9} {name:13} {value:9.2f} ms {share:5.1f} % of peak {memory[name]:8.1f} MiB")
        best = min(peers, key=peers.get)
        ratios.append(times["krama"] / peers[best])
        bars.append((f"{model} time vs {best}", ratios[-1], 1.0))
        bars.append((f"{model} memory vs {best}", memory["krama"] / memory[best], 1.0))
    if set(chosen) == set(STEPS):
        complete = len(ratios) == len(chosen)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if complete else None
        bars.append(("geometric mean of times", mean, 0.85))
    return bars_of("models", bars)


if __name__ == "__main__":
    sys.exit(main())
