#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Writes the reference numbers of test_golden_residual.cpp, test_golden_unet.cpp and test_golden_eeg.cpp with PyTorch, in f64.

usage: ./toolbox run --full python3 tests/golden/make_network_golden.py

Safetensors files as make_golden.py's, for networks with BatchNorm and others: logits are of evaluation with the running statistics
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

    def with_bias(self, name, shape, channels):
        if name + ".weight" not in self:
            scale = (2 / (torch.Size(shape[1:]).numel())) ** 0.5
            self[name + ".weight"] = (scale * torch.randn(shape)).requires_grad_()
            self[name + ".bias"] = (0.3 * torch.randn(channels)).requires_grad_()
        return self[name + ".weight"], self[name + ".bias"]

    def biased_conv(self, x, name, out, kernel, padding):
        w, b = self.with_bias(name, (out, kernel, kernel, x.shape[1]), out)
        return F.conv2d(x, images_first(w), b, padding=padding)

    def conv1d(self, x, name, out, kernel):
        """The weight is (out, 1, length, in)."""
        w, b = self.with_bias(name, (out, 1, kernel, x.shape[1]), out)
        return F.conv1d(x, w[:, 0].permute(0, 2, 1), b)

    def neurons(self, x, name, out):
        w, b = self.with_bias(name, (out, x.shape[1]), out)
        return F.linear(x, w, b)

    def grow(self, x, name, out):
        """The weight is (in, height, width, out)."""
        w, b = self.with_bias(name, (x.shape[1], 2, 2, out), out)
        return F.conv_transpose2d(x, images_first(w), b, stride=2)

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


def fitted(x, height, width):
    """Cut or filled with zeros, half of the difference before, rounded down."""
    dh, dw = height - x.shape[2], width - x.shape[3]
    half = lambda d: d // 2 if d >= 0 else -(-d // 2)
    return F.pad(x, [half(dw), dw - half(dw), half(dh), dh - half(dh)])


def unet(w, images, levels, padding):
    """Ronneberger et al. 2015; with padding, what is smaller is filled up, else cropped."""

    def two_convs(x, name, out):
        x = F.relu(w.biased_conv(x, name + ".conv1", out, 3, padding))
        return F.relu(w.biased_conv(x, name + ".conv2", out, 3, padding))

    x, skips = images_first(images), []
    for i, width in enumerate(levels[:-1]):
        skips.append(two_convs(x, f"down.{i}", width))
        x = F.max_pool2d(skips[-1], 2)
    x = two_convs(x, "bottom", levels[-1])
    for i in reversed(range(len(levels) - 1)):
        x, skip = w.grow(x, f"up.{i}.grow.conv", levels[i]), skips[i]
        largest = max if padding else min
        height, width = (largest(x.shape[d], skip.shape[d]) for d in (2, 3))
        x = torch.cat([fitted(skip, height, width), fitted(x, height, width)], 1)
        x = two_convs(x, f"up.{i}", levels[i])
    return w.biased_conv(x, "head.conv", 3, 1, 0).permute(0, 2, 3, 1).contiguous()


def eeg(w, windows, stages, hidden):
    """Acharya et al. 2018; windows are (windows, samples, channels)."""
    x = windows.permute(0, 2, 1)
    for i, (channels, kernel) in enumerate(stages):
        x = F.max_pool1d(F.relu(w.conv1d(x, f"stages.{i}.conv", channels, kernel)), 2)
    x = x.permute(0, 2, 1).flatten(1)
    for i, width in enumerate(hidden):
        x = F.relu(w.neurons(x, f"hidden.{i}.linear", width))
    return w.neurons(x, "head.linear", 3)


def golden(file, network, size, **options):
    torch.manual_seed(17)
    w = Weights()
    images = torch.randn(SAMPLES, *size, 2)
    w.training = False
    logits = network(w, images, **options)
    targets = torch.randint(3, logits.shape[:-1], dtype=torch.int32)

    def loss_of():
        return F.cross_entropy(network(w, images, **options).flatten(0, -2), targets.flatten().long())

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
    golden("resnet_basic.safetensors", resnet, (32, 32), stages=(2, 1), bottleneck=False)
    golden("resnet_bottleneck.safetensors", resnet, (32, 32), stages=(2, 1), bottleneck=True)
    golden("preact_basic.safetensors", preact, (8, 8), widths=(4, 6), blocks=2, bottleneck=False)
    golden("preact_bottleneck.safetensors", preact, (8, 8), widths=(4, 5), blocks=2, bottleneck=True)
    golden("unet_cropped.safetensors", unet, (18, 19), levels=(3, 5), padding=0)
    golden("unet_padded.safetensors", unet, (7, 9), levels=(3, 4, 5), padding=1)
    golden("eeg.safetensors", eeg, (31,), stages=((3, 5), (4, 4), (5, 3)), hidden=(6,))
