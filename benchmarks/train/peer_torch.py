# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Times training steps of the same networks in PyTorch and prints one JSON line.

usage: peer_torch.py CONFIG STEPS eager|fused|compiled
"""

import json
import sys
import time
import warnings

import torch
import torch.nn.functional as F
from torch import nn

GPT = {"gpt128": (128, 4, 4, 128, 16), "gpt384": (384, 6, 6, 256, 8)}
MLP = {"mlp32": 32, "mlp128": 128, "mlp1024": 1024}


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d)
        self.up = nn.Linear(d, 4 * d)
        self.down = nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).unbind(2)
        a = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, d, layers, heads, context):
        super().__init__()
        self.tokens = nn.Embedding(256, d)
        self.positions = nn.Parameter(torch.randn(context, d) * 0.02)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, x):
        x = self.tokens(x) + self.positions
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def main():
    config, steps, form = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(2)
    torch.manual_seed(1)
    if config in GPT:
        d, layers, heads, context, batch = GPT[config]
        model = Gpt(d, layers, heads, context)
        x = torch.arange(batch * context).mul(7919).remainder(251).view(batch, context)
        y = torch.arange(batch * context).mul(104729).remainder(256)
        classes = 256
    else:
        batch = MLP[config]
        model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
        x = torch.arange(batch * 784).mul(7919).remainder(251).view(batch, 784) / 251.0
        y = torch.arange(batch).mul(104729).remainder(10)
        classes = 10
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, weight_decay=0.1, fused=True if form != "eager" else None
    )

    def loss_of(x, y):
        return F.cross_entropy(model(x).view(-1, classes), y)

    step_loss = loss_of
    if form == "compiled":
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step_loss = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = step_loss(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(3):
        step()
    if form == "compiled":
        counters = torch._dynamo.utils.counters
        if counters["graph_break"] or not counters["inductor"] and not counters["stats"]:
            raise SystemExit("the compiled form fell back: " + str(dict(counters)))
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        loss = step()
        times.append(1e3 * (time.perf_counter() - begin))
    times.sort()
    print(
        json.dumps(
            {
                "form": form,
                "config": config,
                "median_ms": round(times[len(times) // 2], 4),
                "min_ms": round(times[0], 4),
                "loss": round(loss, 5),
            }
        )
    )


if __name__ == "__main__":
    main()
