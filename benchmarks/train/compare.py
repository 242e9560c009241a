#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Training steps of Krama against the fastest of PyTorch's forms, in turns (A B B A), medians.

usage: compare.py BENCH_STEP [CONFIG …]

Ends with a line for each bar, and a non-zero exit where one is missed. A peer that could not run is said
to be missing; one whose matrix product is slow is refused, because beating it would prove nothing.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
STEPS = {"gpt128": 15, "gpt384": 5, "mlp32": 1000, "mlp128": 400, "mlp1024": 100}
FORMS = ["eager", "fused", "compiled"]
ROUNDS = 2


def environment():
    env = dict(os.environ, OMP_NUM_THREADS="2", OMP_PROC_BIND="false")
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        env.pop(name, None)
    return env


def run(command, **extra):
    done = subprocess.run(command, env=dict(environment(), **extra), capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        reason = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        return None, reason
    return json.loads(lines[-1]), ""


SGEMM = """
import time, torch
torch.set_num_threads(2)
a = torch.randn(2048, 2048); b = torch.randn(2048, 2048); c = a @ b
best = 1e9
for _ in range(5):
    t = time.perf_counter(); torch.matmul(a, b, out=c); best = min(best, time.perf_counter() - t)
print('{"gflops": %.1f}' % (2 * 2048**3 / best * 1e-9))
"""


def main():
    bench = sys.argv[1]
    configs = sys.argv[2:] or list(STEPS)
    figure, reason = run([sys.executable, "-c", SGEMM])
    if figure is None:
        print(f"no PyTorch here ({reason}): no peer to compare with")
        return 1
    print(f"peer's sgemm 2048^3: {figure['gflops']} GFLOP/s")
    own, reason = run([bench, "sgemm"], KRAMA_GEMM="openblas")
    if own is None:
        print(f"OpenBLAS' sgemm cannot be measured: {reason}")
        return 1
    floor = own["gflops"]
    if figure["gflops"] < 0.5 * floor:
        print(f"refused: the peer's sgemm is under half of OpenBLAS' {floor} GFLOP/s")
        return 1

    bars = []
    for config in configs:
        steps = str(STEPS[config])
        commands = {"krama": [bench, config, steps]}
        for form in FORMS:
            commands[form] = [sys.executable, str(HERE / "peer_torch.py"), config, steps, form]
        medians = {name: [] for name in commands}
        names = list(commands)
        for _ in range(ROUNDS):
            for name in names + names[::-1]:
                if medians[name] is None:
                    continue
                result, reason = run(commands[name])
                if result is None:
                    print(f"{config}: {name} is left out: {reason}")
                    medians[name] = None
                else:
                    print(json.dumps(result))
                    medians[name].append(result["median_ms"])
        figures = {name: statistics.median(v) for name, v in medians.items() if v}
        for name, value in figures.items():
            print(f"  {config:8} {name:9} {value:9.3f} ms")
        peers = {name: value for name, value in figures.items() if name != "krama"}
        if not peers or "krama" not in figures:
            bars.append((config, None))
            continue
        best = min(peers, key=peers.get)
        bars.append((f"{config} vs {best}", figures["krama"] / peers[best]))

    missed = 0
    for name, ratio in bars:
        met = ratio is not None and ratio <= 1.0
        missed += not met
        shown = "nothing to compare" if ratio is None else f"{ratio:.3f}"
        print(f"BAR train {name}: {shown} bound 1.000 {'met' if met else 'missed'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
