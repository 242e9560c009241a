#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Writes norm.safetensors for test_golden_norm.cpp: a small U-shaped network with BatchNorm, GroupNorm,
bilinear and nearest upsampling, a long skip padded to odd sizes and label smoothing, in PyTorch and f64.

usage: ./toolbox run --full python3 tests/golden/make_norm_golden.py

Tensors: x (channels last), targets, weights ("w."), then of training: loss, gradients of the mean
loss ("g."), everything after five SGD steps ("after."), running statistics included, and the logits of
evaluation after them; and binary cross-entropy with its gradient on numbers of its own ("bce.").
"""

import torch
import torch.nn.functional as F

from make_golden import save

IMAGES, HEIGHT, WIDTH, CLASSES = 3, 5, 7, 4
torch.set_default_dtype(torch.float64)


def linear(x, w, name):  # over channels; x is (images, channels, height, width)
    return F.linear(x.permute(0, 2, 3, 1), w[name]).permute(0, 3, 1, 2)


def norm(x, w, name, training):
    return F.batch_norm(x, w[name + ".running_mean"], w[name + ".running_var"], w[name + ".weight"],
                        w[name + ".bias"], training, 0.1, 1e-5)


def network(w, x, training):
    skip = F.relu(norm(linear(x, w, "enter.linear.weight"), w, "enter.norm", training))
    up = F.interpolate(skip, scale_factor=2, mode="bilinear", align_corners=False)
    near = F.interpolate(skip, scale_factor=3, mode="nearest")
    dh, dw = near.shape[2] - up.shape[2], near.shape[3] - up.shape[3]
    up = F.pad(up, [dw // 2, dw - dw // 2, dh // 2, dh - dh // 2])
    x = linear(torch.cat([near, up], 1), w, "join.linear.weight")
    x = F.silu(F.group_norm(x, 2, w["join.norm.weight"], w["join.norm.bias"], 1e-5))
    x = norm(x, w, "leave.norm", training)
    return F.linear(x.permute(0, 2, 3, 1), w["leave.linear.weight"], w["leave.linear.bias"])


def main():
    torch.manual_seed(11)
    shapes = {
        "enter.linear.weight": (6, 3), "enter.norm.weight": (6,), "enter.norm.bias": (6,),
        "join.linear.weight": (8, 12), "join.norm.weight": (8,), "join.norm.bias": (8,),
        "leave.norm.weight": (8,), "leave.norm.bias": (8,),
        "leave.linear.weight": (CLASSES, 8), "leave.linear.bias": (CLASSES,),
    }  # fmt: skip
    w = {n: (1.0 * (n.endswith("norm.weight")) + 0.4 * torch.randn(s)).requires_grad_() for n, s in shapes.items()}
    for name, channels in [("enter.norm", 6), ("leave.norm", 8)]:
        w[name + ".running_mean"] = 0.2 * torch.randn(channels)
        w[name + ".running_var"] = 0.5 + torch.rand(channels)
    x = torch.randn(IMAGES, 3, HEIGHT, WIDTH) * 2 + 1
    targets = torch.randint(CLASSES, (IMAGES * 3 * HEIGHT * 3 * WIDTH,), dtype=torch.int32)
    targets[5] = -100
    out = {"x": x.permute(0, 2, 3, 1).contiguous(), "targets": targets}
    out.update({"w." + n: p.detach().clone() for n, p in w.items()})

    def loss_of(logits):
        return F.cross_entropy(logits.flatten(0, 2), targets.long(), ignore_index=-100, label_smoothing=0.1)

    start = {n: w[n].clone() for n in w if "running" in n}
    logits = network(w, x, True)
    loss = loss_of(logits)
    loss.backward()
    out["loss"] = loss.reshape(1)
    out.update({"g." + n: p.grad.clone() for n, p in w.items() if p.requires_grad})
    for n, v in start.items():
        w[n].copy_(v)  # that forward has changed
    optimizer = torch.optim.SGD([p for p in w.values() if p.requires_grad], lr=0.5)
    for _ in range(5):
        optimizer.zero_grad()
        loss_of(network(w, x, True)).backward()
        optimizer.step()
    out.update({"after." + n: p.detach().clone() for n, p in w.items()})
    out["evaluated"] = network(w, x, False).detach().contiguous()

    bce_x = (5 * torch.randn(6, 4)).requires_grad_()
    bce_t = torch.rand(6, 4).round(decimals=1)
    bce = F.binary_cross_entropy_with_logits(bce_x, bce_t)
    bce.backward()
    out.update({"bce.x": bce_x, "bce.t": bce_t, "bce.loss": bce.reshape(1), "bce.g": bce_x.grad})
    save("norm.safetensors", out)


if __name__ == "__main__":
    main()
