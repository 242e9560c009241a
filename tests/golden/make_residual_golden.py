#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Writes the reference numbers of test_golden_residual.cpp with PyTorch, in f64, as safetensors files.

usage: ./toolbox run --full python3 tests/golden/make_residual_golden.py

As make_golden.py, for networks with BatchNorm: logits are of evaluation with the running statistics
of the file, loss and gradients of training, "after." holds the running statistics of five steps too.
"""

import torch
import torch.nn.functional as F

from make_golden import SAMPLES, images_first, linear, save

torch.set_default_dtype(torch.float64)


class Weights(dict):
    """Parameters under Krama's names, made where the network first asks for them."""

    training = True

    def conv(self, x, name, out, kernel, stride=1):
        if name + ".weight" not in self:
            scale = (2 / (kernel * kernel * x.shape[1])) ** 0.5
            shape = out, kernel, kernel, x.shape[1]
            self[name + ".weight"] = (scale * torch.randn(shape)).requires_grad_()
        return F.conv2d(x, images_first(self[name + ".weight"]), None, stride, kernel // 2)

    def norm(self, x, name):
        channels = x.shape[1]
        if name + ".weight" not in self:
            self[name + ".weight"] = (1 + 0.3 * torch.randn(channels)).requires_grad_()
            # Low, so that ReLUs are off in places: a bias that passes all of them cancels in the next norm.
            self[name + ".bias"] = (0.3 * torch.randn(channels) - 1).requires_grad_()
            self[name + ".running_mean"] = 0.2 * torch.randn(channels)
            self[name + ".running_var"] = 0.5 + torch.rand(channels)
        w = [self[name + "." + n] for n in ("running_mean", "running_var", "weight", "bias")]
        return F.batch_norm(x, *w, self.training, 0.1, 1e-5)

    def head(self, x, name, classes):
        if name + ".weight" not in self:
            self[name + ".weight"] = (0.3 * torch.randn(classes, x.shape[1])).requires_grad_()
            self[name + ".bias"] = (0.3 * torch.randn(classes)).requires_grad_()
        return linear(x, self, name)


def block(w, x, p, width, stride, bottleneck):
    """He et al. 2015; a bottleneck strides in its 3 x 3 convolution."""
    convs = [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)] if bottleneck else [(width, 3, stride), (width, 3, 1)]
    out = convs[-1][0]
    keeps = stride == 1 and x.shape[1] == out
    f = x
    for i, (channels, kernel, step) in enumerate(convs):
        f = w.norm(w.conv(f, f"{p}.branch.conv{i + 1}", channels, kernel, step), f"{p}.branch.norm{i + 1}")
        f = F.relu(f) if i + 1 < len(convs) else f
    if not keeps:
        x = w.norm(w.conv(x, p + ".shortcut.conv", out, 1, stride), p + ".shortcut.norm")
    return F.relu(x + f)


def resnet(w, images, stages, bottleneck, width=3):
    x = F.relu(w.norm(w.conv(images_first(images), "stem.conv", width, 7, 2), "stem.norm"))
    x = F.max_pool2d(x, 3, 2, 1)
    for s, blocks in enumerate(stages):
        for i in range(blocks):
            x = block(w, x, f"stages.{s}.{i}", width << s, 2 if s and not i else 1, bottleneck)
    return w.head(x.mean((2, 3)), "head.linear", 3)


def preact_block(w, x, p, width, stride, bottleneck):
    """He et al. 2016; the shortcut of a new shape reads what the branch reads."""
    convs = [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)] if bottleneck else [(width, 3, stride), (width, 3, 1)]
    out = convs[-1][0]
    keeps = stride == 1 and x.shape[1] == out
    f = start = F.relu(w.norm(x, p + ".start.norm"))
    for i, (channels, kernel, step) in enumerate(convs):
        f = F.relu(w.norm(f, f"{p}.branch.norm{i + 1}")) if i else f
        f = w.conv(f, f"{p}.branch.conv{i + 1}", channels, kernel, step)
    return f + (x if keeps else w.conv(start, p + ".shortcut.conv", out, 1, stride))


def preact(w, images, widths, blocks, bottleneck):
    x = w.conv(images_first(images), "stem.conv", 4, 3)
    for s, width in enumerate(widths):
        for i in range(blocks):
            x = preact_block(w, x, f"stages.{s}.{i}", width, 2 if s and not i else 1, bottleneck)
    return w.head(F.relu(w.norm(x, "head.norm")).mean((2, 3)), "head.linear", 3)


def golden(file, network, size, **options):
    torch.manual_seed(17)
    w = Weights()
    images = torch.randn(SAMPLES, size, size, 2)
    targets = torch.randint(3, (SAMPLES,), dtype=torch.int32)

    def loss_of():
        return F.cross_entropy(network(w, images, **options), targets.long())

    w.training = False
    logits = network(w, images, **options)
    out = {"images": images, "targets": targets, "logits": logits}
    out.update({"w." + n: p.detach().clone() for n, p in w.items()})
    w.training = True
    start = {n: p.clone() for n, p in w.items() if not p.requires_grad}
    loss = loss_of()
    loss.backward()
    out["loss"] = loss.reshape(1)
    learnt = {n: p for n, p in w.items() if p.requires_grad}
    out.update({"g." + n: p.grad.clone() for n, p in learnt.items()})
    for n, p in start.items():
        w[n].copy_(p)  # that forward has changed
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in learnt.values() if p.dim() > 1], "weight_decay": 0.1},
         {"params": [p for p in learnt.values() if p.dim() == 1], "weight_decay": 0.0}],
        lr=0.01, betas=(0.9, 0.999), eps=1e-8,
    )  # fmt: skip
    for _ in range(5):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
    out.update({"after." + n: p for n, p in w.items()})
    save(file, out)


if __name__ == "__main__":
    golden("resnet_basic.safetensors", resnet, 32, stages=(2, 1), bottleneck=False)
    golden("resnet_bottleneck.safetensors", resnet, 32, stages=(2, 1), bottleneck=True)
    golden("preact_basic.safetensors", preact, 8, widths=(4, 6), blocks=2, bottleneck=False)
    golden("preact_bottleneck.safetensors", preact, 8, widths=(4, 5), blocks=2, bottleneck=True)
