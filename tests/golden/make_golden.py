#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Writes the reference numbers of test_golden.cpp and test_golden_images.cpp with PyTorch, in f64, as safetensors files.

usage: ./toolbox run --full python3 tests/golden/make_golden.py

Each file holds tokens (or images), targets, the parameters under Krama's names ("w."), logits, loss, the gradient of
the mean loss ("g.") and the parameters after five AdamW steps ("after."). Written out from the
formulas of the papers, not with torch.nn's modules, so that every convention is in sight.
"""

import json
import pathlib
import struct

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY, CONTEXT, SAMPLES, IGNORED = 11, 6, 3, -100
torch.set_default_dtype(torch.float64)


def save(name, tensors):
    header, data = {}, b""
    kinds = {torch.float64: ("F64", "d"), torch.int32: ("I32", "i")}
    for key, value in tensors.items():
        kind, code = kinds[value.dtype]
        flat = value.detach().reshape(-1).tolist()
        raw = struct.pack(f"<{len(flat)}{code}", *flat)
        header[key] = {
            "dtype": kind,
            "shape": list(value.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (HERE / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


def attention(q, k, v):
    """Causal; q (B, H, T, E), k and v (B, K, T, E) with H a multiple of K."""
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v


def heads(x, n):
    b, t, d = x.shape
    return x.view(b, t, n, d // n).transpose(1, 2)


def rope_half_split(x, theta=10000.0):
    """Rotates element i with element i + E/2 by position * theta^(-2 i / E)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] * theta ** (-2 * torch.arange(half) / x.shape[-1])
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def layer_norm(x, w, name):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-5)


def rms_norm(x, w, name):
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * w[name + ".weight"]


def gpt(w, tokens):
    x = w["embedding.tokens.weight"][tokens.long()] + w["embedding.tokens.positions"]
    for i in range(2):
        p = f"blocks.{i}."
        h = layer_norm(x, w, p + "attention.norm")
        q, k, v = F.linear(h, w[p + "attention.qkv.weight"], w[p + "attention.qkv.bias"]).chunk(3, -1)
        a = attention(heads(q, 2), heads(k, 2), heads(v, 2)).transpose(1, 2).flatten(2)
        x = x + F.linear(a, w[p + "attention.out.weight"], w[p + "attention.out.bias"])
        h = layer_norm(x, w, p + "mlp.norm")
        h = F.gelu(F.linear(h, w[p + "mlp.up.weight"], w[p + "mlp.up.bias"]), approximate="tanh")
        x = x + F.linear(h, w[p + "mlp.down.weight"], w[p + "mlp.down.bias"])
    return F.linear(layer_norm(x, w, "head.norm"), w["embedding.tokens.weight"])


def llama(w, tokens):
    x = w["embedding.tokens.weight"][tokens.long()]
    for i in range(2):
        p = f"blocks.{i}."
        qkv = F.linear(rms_norm(x, w, p + "attention.norm"), w[p + "attention.qkv.weight"])
        q, k, v = qkv.split([16, 8, 8], -1)
        q, k, v = heads(q, 4), heads(k, 2), heads(v, 2)
        a = attention(rope_half_split(q), rope_half_split(k), v).transpose(1, 2).flatten(2)
        x = x + F.linear(a, w[p + "attention.out.weight"])
        gate, up = F.linear(rms_norm(x, w, p + "mlp.norm"), w[p + "mlp.gate_up.weight"]).chunk(2, -1)
        x = x + F.linear(F.silu(gate) * up, w[p + "mlp.down.weight"])
    return F.linear(rms_norm(x, w, "head.norm"), w["head.logits.weight"])


def gpt_shapes(d=8):
    yield "embedding.tokens.weight", (VOCABULARY, d)
    yield "embedding.tokens.positions", (CONTEXT, d)
    for i in range(2):
        p = f"blocks.{i}."
        for name, shape in [
            ("attention.norm.weight", (d,)), ("attention.norm.bias", (d,)),
            ("attention.qkv.weight", (3 * d, d)), ("attention.qkv.bias", (3 * d,)),
            ("attention.out.weight", (d, d)), ("attention.out.bias", (d,)),
            ("mlp.norm.weight", (d,)), ("mlp.norm.bias", (d,)),
            ("mlp.up.weight", (4 * d, d)), ("mlp.up.bias", (4 * d,)),
            ("mlp.down.weight", (d, 4 * d)), ("mlp.down.bias", (d,)),
        ]:  # fmt: skip
            yield p + name, shape
    yield "head.norm.weight", (d,)
    yield "head.norm.bias", (d,)


def llama_shapes(d=16, hidden=20):
    yield "embedding.tokens.weight", (VOCABULARY, d)
    for i in range(2):
        p = f"blocks.{i}."
        for name, shape in [
            ("attention.norm.weight", (d,)), ("attention.qkv.weight", (32, d)),
            ("attention.out.weight", (d, d)), ("mlp.norm.weight", (d,)),
            ("mlp.gate_up.weight", (2 * hidden, d)), ("mlp.down.weight", (d, hidden)),
        ]:  # fmt: skip
            yield p + name, shape
    yield "head.norm.weight", (d,)
    yield "head.logits.weight", (VOCABULARY, d)


def images_first(x):
    """Krama's images (samples, height, width, channels) as PyTorch's."""
    return x.permute(0, 3, 1, 2)


def conv(x, w, name, padding):
    """The weight is (out, height, width, in)."""
    return F.conv2d(x, images_first(w[name + ".weight"]), w[name + ".bias"], padding=padding)


def flat(x):
    return x.permute(0, 2, 3, 1).flatten(1)


def linear(x, w, name):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def lenet(w, images):
    x = F.max_pool2d(F.relu(conv(images_first(images), w, "c1.conv", 2)), 2)
    x = F.max_pool2d(F.relu(conv(x, w, "c3.conv", 0)), 2)
    x = F.relu(linear(flat(x), w, "c5.linear"))
    return linear(F.relu(linear(x, w, "f6.linear")), w, "head.linear")


def vgg(w, images):
    x = images_first(images)
    for stage, depth in enumerate((2, 1)):
        for i in range(depth):
            x = F.relu(conv(x, w, f"stages.{stage}.{i}.conv", 1))
        x = F.max_pool2d(x, 2)
    x = F.relu(linear(flat(x), w, "hidden.0.linear"))
    return linear(F.relu(linear(x, w, "hidden.1.linear")), w, "head.linear")


def with_biases(*weights):
    for name, *shape in weights:
        yield name + ".weight", tuple(shape)
        yield name + ".bias", (shape[0],)


def lenet_shapes():
    return with_biases(
        ("c1.conv", 4, 5, 5, 2), ("c3.conv", 3, 5, 5, 4), ("c5.linear", 6, 12), ("f6.linear", 5, 6),
        ("head.linear", 3, 5),
    )  # fmt: skip


def vgg_shapes():
    return with_biases(
        ("stages.0.0.conv", 4, 3, 3, 3), ("stages.0.1.conv", 5, 3, 3, 4), ("stages.1.0.conv", 6, 3, 3, 5),
        ("hidden.0.linear", 10, 24), ("hidden.1.linear", 10, 10), ("head.linear", 5, 10),
    )  # fmt: skip


def texts():
    tokens = torch.randint(VOCABULARY, (SAMPLES, CONTEXT), dtype=torch.int32)
    targets = torch.randint(VOCABULARY, (SAMPLES, CONTEXT), dtype=torch.int32)
    targets[1, 2] = targets[2, 5] = IGNORED
    return "tokens", tokens, targets


def images(size, channels, classes):
    return (
        "images",
        torch.randn(SAMPLES, size, size, channels),
        torch.randint(classes, (SAMPLES,), dtype=torch.int32),
    )


def golden(file, network, shapes, draw):
    torch.manual_seed(7)
    w = {}
    for name, shape in shapes:
        start = torch.ones(shape) if "norm.weight" in name else torch.zeros(shape)
        w[name] = (start + 0.3 * torch.randn(shape)).requires_grad_()
    kind, inputs, targets = draw()
    out = {kind: inputs, "targets": targets}
    out.update({"w." + n: p.detach().clone() for n, p in w.items()})

    def loss_of(logits):
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten().long(), ignore_index=IGNORED)

    logits = network(w, inputs)
    loss = loss_of(logits)
    loss.backward()
    out.update({"logits": logits, "loss": loss.reshape(1)})
    out.update({"g." + n: p.grad.clone() for n, p in w.items()})
    decays = [p for p in w.values() if p.dim() > 1]
    others = [p for p in w.values() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=0.01, betas=(0.9, 0.999), eps=1e-8,
    )  # fmt: skip
    for _ in range(5):
        optimizer.zero_grad()
        loss_of(network(w, inputs)).backward()
        optimizer.step()
    out.update({"after." + n: p for n, p in w.items()})
    save(file, out)


if __name__ == "__main__":
    golden("gpt.safetensors", gpt, gpt_shapes(), texts)
    golden("llama.safetensors", llama, llama_shapes(), texts)
    golden("lenet.safetensors", lenet, lenet_shapes(), lambda: images(16, 2, 3))
    golden("vgg.safetensors", vgg, vgg_shapes(), lambda: images(8, 3, 5))
