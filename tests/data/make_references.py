#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference values of the gradient tests with PyTorch (1.13, double precision, one thread).

    python3 tests/data/make_references.py [digits.csv.gz]

Without the digits: ops.ref. With them also digits_320.bytes and digits_losses.txt. All beside this file.

A .ref file is a sequence of tensors: a line "name type rank extents..." and the values, row-major and little-endian: f4 where single
precision holds them exactly, else f8. models.ref holds tiny versions of published nets, made the same way: `NET/NAME` is an input or
a parameter, `NET/out` and `NET/loss` the results, `NET/d(NAME)` the loss's gradients, with the names of tests/data/models/NET.nf.
Inputs come from a hash, so that tests can make them again: element i of tensor `name` is u * scale with
    h = FNV-1a(name), z = h + i * 0x9E3779B1 (mod 2^32), z finalised as in MurmurHash3, u = (z >> 8) / 2^24 - 0.5.
"""
import gzip
import os

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = np.uint64(0xFFFFFFFF)


def fill(name, shape, scale):
    h = 2166136261
    for byte in name.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    n = int(np.prod(shape, dtype=np.int64))
    z = (np.uint64(h) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B1)) & MASK
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        z ^= z >> np.uint64(shift)
        z = (z * np.uint64(factor)) & MASK
    z ^= z >> np.uint64(16)
    u = (z >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5
    return (u * scale).reshape(shape)


def write(path, tensors):
    with open(path, "wb") as f:
        for name, value in tensors.items():
            value = np.asarray(value, dtype="<f8")
            kind = "f4" if np.array_equal(value.astype("<f4").astype("<f8"), value) else "f8"
            value = np.ascontiguousarray(value, dtype="<" + kind).reshape(value.shape)
            shape = "".join(f" {e}" for e in value.shape)
            f.write(f"{name} {kind} {value.ndim}{shape}\n".encode())
            f.write(value.tobytes())


def operators():
    """Each operator's inputs, output, an output gradient and the gradients of the inputs."""
    def figure4(x, w):
        c = F.conv2d(F.pad(x, (2, 2, 2, 2)), w, stride=2, dilation=2)
        return torch.cat([F.pixel_shuffle(c, 2), x], 1)

    def shuffle(x):
        return torch.relu(x.reshape(2, 3, 2, 3, 3).transpose(1, 2).reshape(2, 6, 3, 3))

    def gates(i, f, g, o, c):
        return o.sigmoid() * (f.sigmoid() * c + i.sigmoid() * g.tanh()).tanh()

    conv = F.conv2d
    cases = {
        "gemm": (lambda a, b: a @ b, dict(a=(5, 7), b=(7, 6))),
        "gemm_nt": (lambda a, b: a @ b.T, dict(a=(5, 7), b=(6, 7))),
        "bmm": (torch.bmm, dict(a=(3, 4, 5), b=(3, 5, 2))),
        "conv_s2p1": (lambda x, w: conv(x, w, stride=2, padding=1), dict(x=(2, 3, 7, 6), w=(4, 3, 3, 3))),
        "conv_1x1": (lambda x, w: conv(x, w), dict(x=(2, 5, 4, 4), w=(6, 5, 1, 1))),
        "conv_grouped": (lambda x, w: conv(x, w, padding=1, groups=2), dict(x=(1, 6, 5, 5), w=(4, 3, 3, 3))),
        "conv_depthwise_s2": (lambda x, w: conv(x, w, stride=2, padding=1, groups=4), dict(x=(2, 4, 7, 7), w=(4, 1, 3, 3))),
        "conv_dilated": (lambda x, w: conv(x, w, stride=2, padding=2, dilation=2), dict(x=(1, 3, 8, 8), w=(4, 3, 3, 3))),
        "fig4": (figure4, dict(x=(2, 3, 8, 8), w=(8, 3, 3, 3))),
        "depth2space": (lambda x: F.pixel_shuffle(x, 2), dict(x=(1, 8, 3, 2))),
        "channel_shuffle_relu": (shuffle, dict(x=(2, 6, 3, 3))),
        "softmax": (lambda x: x.softmax(-1), dict(x=(4, 9))),
        "layernorm": (lambda x, w, b: F.layer_norm(x, (8,), w, b, eps=1e-12), dict(x=(3, 8), w=(8,), b=(8,))),
        "batchnorm_train": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), dict(x=(3, 4, 3, 3), w=(4,), b=(4,))),
        "maxpool_3s2p1": (lambda x: F.max_pool2d(x, 3, stride=2, padding=1), dict(x=(1, 2, 7, 7))),
        "avgpool_3s2p1": (lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), dict(x=(1, 2, 7, 7))),
        "gelu_erf": (F.gelu, dict(x=(3, 7))),
        "elu": (F.elu, dict(x=(3, 7))),
        "lstm_gates": (gates, {n: (2, 5) for n in "ifgoc"}),
        "relu_add_mul": (lambda x, y, z: (x + y).relu() * z, {n: (3, 5) for n in "xyz"}),
    }
    values = {}
    for case, (function, shapes) in cases.items():
        inputs = [torch.from_numpy(fill(f"{case}.{n}", s, 2.0)).requires_grad_() for n, s in shapes.items()]
        out = function(*inputs)
        dout = torch.from_numpy(fill(f"{case}.dy", tuple(out.shape), 2.0))
        out.backward(dout)
        values[f"{case}/out"], values[f"{case}/dout"] = out.detach().numpy(), dout.numpy()
        for n, t in zip(shapes, inputs):
            values[f"{case}/{n}"], values[f"{case}/d{n}"] = t.detach().numpy(), t.grad.numpy()
    write(os.path.join(HERE, "ops.ref"), values)


def digits(rows):
    """320 digits as bytes (64 pixels 0..16 and the label), and the losses of 20 Adam steps of the capsule net on batches of 64."""
    np.asarray(rows[:320], dtype=np.uint8).tofile(os.path.join(HERE, "digits_320.bytes"))
    x = torch.tensor(rows[:320, :64] / 16.0).reshape(5, 64, 1, 8, 8)
    y = torch.tensor(rows[:320, 64]).long().reshape(5, 64)
    shapes = dict(F1=((64, 1, 3, 3), 1.0), b1=((64,), 0.25), F2=((64, 64, 3, 3), 0.125), b2=((64,), 0.25), W=((32, 10, 16, 8), 0.5))
    p = {n: torch.from_numpy(fill(n, s, scale)).requires_grad_() for n, (s, scale) in shapes.items()}

    def squash(s):
        n = (s * s).sum(-1, keepdim=True)
        return s * n / ((1 + n) * (n + 1e-8).sqrt())

    def loss(x, y):
        h = F.conv2d(F.conv2d(x, p["F1"], p["b1"]).relu(), p["F2"], p["b2"], stride=2)  # channel 8*d + a, position 2*p + q
        u = squash(h.reshape(-1, 8, 8, 4).permute(0, 2, 3, 1).reshape(-1, 32, 8))        # capsule 4*a + position, element d
        votes = torch.einsum("bid,iced->bice", u, p["W"])
        logit = torch.zeros(len(x), 32, 10, dtype=torch.float64)
        for routing in range(3):
            v = squash((logit.softmax(-1)[..., None] * votes).sum(1))
            if routing < 2:
                logit = logit + (votes * v[:, None]).sum(-1)
        length = ((v * v).sum(-1) + 1e-8).sqrt()
        t = F.one_hot(y, 10).double()
        return (t * (0.9 - length).relu() ** 2 + 0.5 * (1 - t) * (length - 0.1).relu() ** 2).sum(1).mean()

    adam = torch.optim.Adam(list(p.values()), lr=1e-3)
    with open(os.path.join(HERE, "digits_losses.txt"), "w") as f:
        for step in range(20):
            adam.zero_grad()
            value = loss(x[step % 5], y[step % 5])
            value.backward()
            adam.step()
            f.write(f"{value.item():.17g}\n")


if __name__ == "__main__":
    import sys

    torch.set_num_threads(1)
    operators()
    if len(sys.argv) > 1:  # digits.csv.gz
        digits(np.loadtxt(gzip.open(sys.argv[1]), delimiter=","))
