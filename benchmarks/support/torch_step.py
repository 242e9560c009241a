# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Times whole training steps of a network in PyTorch, in one of its forms, and prints one JSON line."""

import json
import math
import resource
import time
import warnings

import torch
import torch.nn.functional as F


def samples(*shape):
    """Whole numbers below 251, as the executables make them."""
    return torch.arange(math.prod(shape)).mul(7919).remainder(251).view(shape)


def targets(rows, classes):
    return torch.arange(rows).mul(104729).remainder(classes)


def time_steps(config, model, x, y, classes, steps, form):
    """`form`: eager, fused (optimizer), channels_last (images; fused too), compiled (fused too). `y` has one class for
    each row of the logits."""
    if form == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
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
                "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            }
        )
    )
