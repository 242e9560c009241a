#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Whole trainings, to goals that were set before.

usage: train.py FOLDER      FOLDER holds bench_train.v3 and bench_train.native

  - a CNN on MNIST's idx files (KRAMA_BENCH_MNIST, a folder; gzip is understood), every tenth image held out: the mean
    error of KRAMA_BENCH_SEEDS (5) seeds, on one rank of two threads and on two unlike executables with shares 3:1;
  - a CIFAR ResNet and a U-Net learn one batch by heart;
  - the language model on a text (KRAMA_BENCH_TEXT), its last tenth held out, for KRAMA_BENCH_MINUTES (10) on two
    unlike executables.

Ends with a line for each bar, and a non-zero exit where one is missed.
"""

import gzip
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "support"))
from against_torch import bars_of, environment  # noqa: E402

LAUNCH = str(ROOT / "scripts" / "launch")
FILES = ("images-idx3-ubyte", "labels-idx1-ubyte")


def one_rank(program, *words):
    return [LAUNCH, "-n", "1", program + ".native", *words], "2"


def two_unlike(program, *words):
    return [LAUNCH, "-n", "1", "-env", "ONEDNN_MAX_CPU_ISA", "AVX2", program + ".v3", *words,
            ":", "-n", "1", program + ".native", *words], "1"


def run(command):
    """The last JSON line that the job prints; exits where it fails."""
    words, threads = command
    env = dict(environment(), OMP_NUM_THREADS=threads, KRAMA_QUIET="1")
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout}{done.stderr}")
    print(lines[-1], flush=True)
    return json.loads(lines[-1])


def unpacked(folder, to):
    """The idx files of one part of MNIST in `to`, unpacked; None where `folder` does not hold them."""
    for part in ("train", "t10k"):
        found = []
        for file in FILES:
            name = f"{part}-{file}"
            for path in (folder / name, folder / name.replace("-idx", ".idx"), folder / (name + ".gz")):
                if path.exists():
                    opened = gzip.open(path) if path.suffix == ".gz" else open(path, "rb")
                    with opened as packed, open(to / name, "wb") as out:
                        shutil.copyfileobj(packed, out)
                    found.append(path)
                    break
        if len(found) == len(FILES):
            return to
    return None


def cnn(program, bars):
    named = os.environ.get("KRAMA_BENCH_MNIST")
    if not named:
        print("SKIPPED: the CNN; name MNIST's folder: ./toolbox bench --mnist FOLDER train")
        return
    seeds = range(1, 1 + int(os.environ.get("KRAMA_BENCH_SEEDS", "5")))
    with tempfile.TemporaryDirectory() as work:
        files = unpacked(pathlib.Path(named), pathlib.Path(work))
        if files is None:
            print(f"SKIPPED: the CNN; {named} holds neither train- nor t10k-images-idx3-ubyte with labels")
            return
        for name, job, shares in (("one rank", one_rank, "equal"), ("two unlike ranks 3:1", two_unlike, "3:1")):
            results = [run(job(program, "cnn", str(files), str(seed), shares)) for seed in seeds]
            bars.append((f"cnn, mean error in percent, {name}", statistics.mean(r["error"] for r in results), 2.2))
            bars.append((f"cnn, longest run in seconds, {name}", max(r["seconds"] for r in results), 120.0))


def language_model(folder, bars):
    text = os.environ.get("KRAMA_BENCH_TEXT")
    if not text or not pathlib.Path(text).is_file():
        print("SKIPPED: the language model; name a text: ./toolbox bench --text FILE train")
        return
    program = str(folder.parent.parent / "examples" / "05_language_model" / "language_model")
    if not pathlib.Path(program + ".native").exists():
        print("SKIPPED: the language model; it was not built (no CLI11)")
        return
    with tempfile.TemporaryDirectory() as out:
        words, threads = two_unlike(program, "--data", text, "--out", out, "--generate", "0",
                                    "--trace-steps", "0", "--minutes", os.environ.get("KRAMA_BENCH_MINUTES", "10"),
                                    *os.environ.get("KRAMA_BENCH_MODEL", MODEL).split())
        env = dict(environment(), OMP_NUM_THREADS=threads, KRAMA_QUIET="1", KRAMA_PROGRESS="off")
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"failed: {' '.join(words)}\n{done.stdout}{done.stderr}")
        lines = [json.loads(line) for line in open(pathlib.Path(out) / "metrics.jsonl", encoding="utf-8")]
    loss = [line["validation_loss"] for line in lines if "validation_loss" in line][-1]
    last = [line for line in lines if "loss" in line][-1]
    print(json.dumps({"what": "gpt", "nats_per_byte": loss, "steps": last["step"], "seconds": last["seconds"]}))
    bars.append(("gpt, nats per byte of held-out text", loss, 1.75))


# What learns most in ten minutes of two cores.
MODEL = "--layers 4 --features 128 --heads 4 --context 128 --batch 8 --lr 2e-3 --warmup 100"


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    program = str(folder / "bench_train")
    bars = []
    for what in ("resnet", "unet"):
        bars.append((f"{what}, last loss of one batch", run(one_rank(program, what))["loss"], 0.01))
    cnn(program, bars)
    language_model(folder, bars)
    return bars_of("train", bars)


if __name__ == "__main__":
    sys.exit(main())
