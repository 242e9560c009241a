# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Times training steps of the same networks in PyTorch and prints one JSON line.

usage: peer_torch.py CONFIG STEPS eager|fused|compiled [cpu|cuda]
"""

import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from torch_gpt import Gpt  # noqa: E402
from torch_step import samples, targets, time_steps  # noqa: E402

GPT = {"gpt128": (128, 4, 4, 128, 16), "gpt384": (384, 6, 6, 256, 8)}
MLP = {"mlp32": 32, "mlp128": 128, "mlp1024": 1024}


def main():
    config, steps, form = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    device = sys.argv[4] if len(sys.argv) > 4 else "cpu"
    torch.set_num_threads(2)
    torch.manual_seed(1)
    if config in GPT:
        d, layers, heads, context, batch = GPT[config]
        model = Gpt(d, layers, heads, context)
        x = samples(batch, context)
        rows, classes = batch * context, 256
    else:
        batch = MLP[config]
        model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
        x = samples(batch, 784) / 251.0
        rows, classes = batch, 10
    y = targets(rows, classes).to(device)
    time_steps(config, model.to(device), x.to(device), y, classes, steps, form)


if __name__ == "__main__":
    main()
