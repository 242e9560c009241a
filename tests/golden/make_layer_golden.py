#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Writes layers.safetensors for test_golden_layers.cpp: single layers in PyTorch and f64.

usage: ./toolbox run --full python3 tests/golden/make_layer_golden.py

Of each case: x (channels last), parameters one behind the other under "p" in Krama's order, dy, y, dx and the
gradients of the parameters under "g". The cases are those of the test, by name.
"""

import torch
import torch.nn.functional as F

from make_golden import images_first, save

torch.set_default_dtype(torch.float64)


def last(x):
    """PyTorch's (samples, channels, …) as Krama's."""
    return x.permute(0, *range(2, x.dim()), 1)


def first(x):
    return x.permute(0, x.dim() - 1, *range(1, x.dim() - 1))


def conv1d(x, w, b, **options):
    """The weight is (out, 1, kernel, in / groups)."""
    return F.conv1d(x, w[:, 0].permute(0, 2, 1), b, **options)


def conv_transpose2d(x, w, b, **options):
    """The weight is (in, height, width, out / groups)."""
    return F.conv_transpose2d(x, images_first(w), b, **options)


# name, function, shape of x, shapes of the parameters, options
CASES = [
    ("conv1d", conv1d, (2, 7, 3), [(4, 1, 3, 3), (4,)], dict(stride=2, padding=1)),
    ("conv1d.dilated", conv1d, (2, 9, 2), [(3, 1, 3, 2), (3,)], dict(padding=2, dilation=2)),
    ("conv1d.groups", conv1d, (2, 6, 4), [(6, 1, 3, 2)], dict(groups=2)),
    ("conv1d.depthwise", conv1d, (1, 8, 5), [(5, 1, 4, 1), (5,)], dict(padding=1, groups=5)),
    ("conv_transpose2d", conv_transpose2d, (2, 3, 2, 3), [(3, 2, 2, 2), (2,)], dict(stride=2)),
    ("conv_transpose2d.uneven", conv_transpose2d, (1, 3, 4, 2), [(2, 3, 3, 3), (3,)],
     dict(stride=2, padding=1, output_padding=(1, 0))),
    ("conv_transpose2d.groups", conv_transpose2d, (1, 3, 2, 4), [(4, 2, 3, 2)],
     dict(stride=(1, 2), dilation=(2, 1), groups=2)),
    ("max_pool1d", F.max_pool1d, (2, 7, 3), [], dict(kernel_size=3, stride=2, padding=1)),
    ("avg_pool1d", F.avg_pool1d, (2, 7, 3), [], dict(kernel_size=3, stride=2, padding=1)),
    ("avg_pool1d.inside", F.avg_pool1d, (2, 7, 3), [],
     dict(kernel_size=3, stride=2, padding=1, count_include_pad=False)),
    ("adaptive_avg_pool2d", F.adaptive_avg_pool2d, (2, 7, 5, 3), [], dict(output_size=(3, 2))),
    ("adaptive_avg_pool2d.larger", F.adaptive_avg_pool2d, (1, 3, 2, 2), [], dict(output_size=(5, 3))),
]  # fmt: skip


def main():
    torch.manual_seed(23)
    out = {}
    for name, function, shape, parameters, options in CASES:
        x = torch.randn(shape, requires_grad=True)
        w = [torch.randn(s, requires_grad=True) for s in parameters]
        given = w + [None] * (2 - len(w)) if w else []
        y = last(function(first(x), *given, **options))
        dy = torch.randn(y.shape)
        y.backward(dy)
        out.update({name + "/x": x, name + "/dy": dy, name + "/y": y.contiguous(), name + "/dx": x.grad})
        if w:
            out[name + "/p"] = torch.cat([p.detach().flatten() for p in w])
            out[name + "/g"] = torch.cat([p.grad.flatten() for p in w])
    save("layers.safetensors", out)


if __name__ == "__main__":
    main()
