# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Times training steps of the same models in PyTorch and prints one JSON line.

usage: peer_torch.py MODEL STEPS eager|fused|channels_last|compiled
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from torch_gpt import Gpt  # noqa: E402
from torch_step import samples, targets, time_steps  # noqa: E402


def conv(i, o, kernel, stride=1):
    return nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False)


class Residual(nn.Module):
    """He et al. 2015; a bottleneck strides in its 3 x 3 convolution."""

    def __init__(self, i, width, stride, bottleneck):
        super().__init__()
        o = 4 * width if bottleneck else width
        parts = [(width, 1, 1), (width, 3, stride), (o, 1, 1)] if bottleneck else [(width, 3, stride), (width, 3, 1)]
        layers, c = [], i
        for out, kernel, step in parts:
            layers += [conv(c, out, kernel, step), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            c = out
        self.branch = nn.Sequential(*layers[:-1])
        keeps = stride == 1 and i == o
        self.shortcut = nn.Identity() if keeps else nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x), inplace=True)


def resnet(stages, bottleneck):
    layers = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    c = 64
    for s, blocks in enumerate(stages):
        for i in range(blocks):
            layers.append(Residual(c, 64 << s, 2 if s and not i else 1, bottleneck))
            c = (64 << s) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


class Preact(nn.Module):
    """He et al. 2016; the shortcut of a new shape reads what the branch reads."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.start = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(inplace=True))
        self.branch = nn.Sequential(
            conv(i, o, 3, stride), nn.BatchNorm2d(o), nn.ReLU(inplace=True), conv(o, o, 3)
        )
        self.shortcut = None if stride == 1 and i == o else conv(i, o, 1, stride)

    def forward(self, x):
        start = self.start(x)
        return self.branch(start) + (x if self.shortcut is None else self.shortcut(start))


def wide_resnet():
    layers, c = [conv(3, 16, 3)], 16
    for s, width in enumerate((160, 320, 640)):
        for i in range(4):
            layers.append(Preact(c, width, 2 if s and not i else 1))
            c = width
    layers += [nn.BatchNorm2d(c), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 10)]
    return nn.Sequential(*layers)


def vgg16():
    layers, c = [], 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(c, width, 3, padding=1), nn.ReLU(inplace=True)]
            c = width
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for i, o in ((49 * 512, 4096), (4096, 4096)):
        layers += [nn.Linear(i, o), nn.ReLU(inplace=True), nn.Dropout(0.5)]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


class Unet(nn.Module):
    LEVELS = (64, 128, 256, 512, 1024)

    def __init__(self):
        super().__init__()

        def two(i, o):
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1), nn.ReLU(inplace=True),
                nn.Conv2d(o, o, 3, padding=1), nn.ReLU(inplace=True),
            )  # fmt: skip

        pairs = list(zip(self.LEVELS, self.LEVELS[1:]))
        self.first = two(1, self.LEVELS[0])
        self.down = nn.ModuleList(two(i, o) for i, o in pairs)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in pairs[::-1])
        self.up = nn.ModuleList(two(2 * i, i) for i, _ in pairs[::-1])
        self.head = nn.Conv2d(self.LEVELS[0], 2, 1)

    def forward(self, x):
        values = [self.first(x)]
        for down in self.down:
            values.append(down(F.max_pool2d(values[-1], 2)))
        x = values.pop()
        for grow, up in zip(self.grow, self.up):
            x = up(torch.cat([values.pop(), grow(x)], 1))
        return self.head(x).permute(0, 2, 3, 1).reshape(-1, 2)


class LlamaBlock(nn.Module):
    def __init__(self, d, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(d, 1e-5), nn.RMSNorm(d, 1e-5)
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.gate_up = nn.Linear(d, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, d, bias=False)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)

        def turned(v):
            low, high = v.chunk(2, -1)
            return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

        a = F.scaled_dot_product_attention(turned(qkv[0]), turned(qkv[1]), qkv[2], is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, d, layers, heads, context, hidden):
        super().__init__()
        self.tokens = nn.Embedding(256, d)
        self.blocks = nn.ModuleList(LlamaBlock(d, heads, hidden) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(d, 1e-5), nn.Linear(d, 256, bias=False)
        half = d // heads // 2
        angle = torch.arange(context)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


IMAGES = {
    "resnet18": (lambda: resnet((2, 2, 2, 2), False), 32, 3, 32, 1000),
    "resnet50": (lambda: resnet((3, 4, 6, 3), True), 4, 3, 224, 1000),
    "vgg16": (vgg16, 2, 3, 224, 1000),
    "wrn28_10": (wide_resnet, 4, 3, 32, 10),
    "unet": (Unet, 1, 1, 256, 2),
}


def main():
    name, steps, form = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(2)
    torch.manual_seed(1)
    if name in IMAGES:
        make, batch, channels, size, classes = IMAGES[name]
        model = make()
        x = (samples(batch, size, size, channels) / 251.0).permute(0, 3, 1, 2).contiguous()
        rows = batch * size * size if name == "unet" else batch
    else:
        batch, context, classes = 8, 256, 256
        model = Gpt(384, 6, 6, context) if name == "gpt2" else Llama(384, 6, 6, context, 1024)
        rows = batch * context
        x = samples(batch, context)
    time_steps(name, model, x, targets(rows, classes), classes, steps, form)


if __name__ == "__main__":
    main()
