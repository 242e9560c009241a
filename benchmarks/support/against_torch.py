# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Training steps against PyTorch: what the comparisons of whole programs share."""

import json
import os
import statistics
import subprocess
import sys

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


def peaks(bench):
    """GFLOP/s of one large product of the peer and of Krama's OpenBLAS door; exits without a peer, or with a slow one."""
    figure, reason = run([sys.executable, "-c", SGEMM])
    if figure is None:
        sys.exit(f"no PyTorch here ({reason}): no peer to compare with")
    print(f"peer's sgemm 2048^3: {figure['gflops']} GFLOP/s")
    own, reason = run([bench, "sgemm"], KRAMA_GEMM="openblas")
    if own is None:
        sys.exit(f"OpenBLAS' sgemm cannot be measured: {reason}")
    if figure["gflops"] < 0.5 * own["gflops"]:
        sys.exit(f"refused: the peer's sgemm is under half of OpenBLAS' {own['gflops']} GFLOP/s")
    return figure["gflops"], own["gflops"]


def in_turns(config, commands, rounds=ROUNDS):
    """Runs the commands A B B A, `rounds` times; the results of each, for those that ran every time."""
    results = {name: [] for name in commands}
    names = list(commands)
    for _ in range(rounds):
        for name in names + names[::-1]:
            if results[name] is None:
                continue
            result, reason = run(commands[name])
            if result is None:
                print(f"{config}: {name} is left out: {reason}", flush=True)
                results[name] = None
            else:
                print(json.dumps(result), flush=True)
                results[name].append(result)
    return {name: value for name, value in results.items() if value}


def medians(results, key):
    return {name: statistics.median(r[key] for r in value) for name, value in results.items()}


def bars_of(suite, bars):
    """Prints (name, figure or None, bound) and returns the exit code."""
    missed = 0
    for name, figure, bound in bars:
        met = figure is not None and figure <= bound
        missed += not met
        shown = "nothing to compare" if figure is None else f"{figure:.3f}"
        print(f"BAR {suite} {name}: {shown} bound {bound:.3f} {'met' if met else 'missed'}")
    return 1 if missed else 0
