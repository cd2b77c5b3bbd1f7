#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX's side of the benchmark: jax_peer.py --device cuda answers lines of standard input, see turns.py.

    {"model": "milstm", "sizes": {"B": 1}}      one training step, compiled as a whole by XLA

    jax_peer.py --check models.ref              the losses of models.py in double precision against the references
"""
import os
import sys

import turns

a = turns.arguments()
os.environ["JAX_PLATFORMS"] = "cuda" if a.device.startswith("cuda") else "cpu"
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # another program times its steps on the same device
if a.device == "cpu" and a.threads == 1:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402

import models  # noqa: E402

jax.config.update("jax_enable_x64", bool(a.check))
jax.config.update("jax_default_matmul_precision", "highest")  # single precision, no TF32


class Jax:
    """What models.py calls."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.relu, self.sigmoid, self.tanh, self.elu, self.sqrt = jax.nn.relu, jax.nn.sigmoid, jnp.tanh, jax.nn.elu, jnp.sqrt
        self.einsum, self.mean, self.softmax = jnp.einsum, jnp.mean, jax.nn.softmax

    def linear(self, x, w, bias=None):
        y = x @ w.T
        return y if bias is None else y + bias

    def conv2d(self, x, w, bias=None, stride=1, pad=0):
        y = jax.lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"))
        return y if bias is None else y + bias[None, :, None, None]

    def cross_entropy(self, scores, labels):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1))

    def sum(self, x, axis, keep=False):
        return jnp.sum(x, axis, keepdims=keep)

    def transpose(self, x, order):
        return jnp.transpose(x, order)

    def split(self, x, axis):
        return [x[:, t] for t in range(x.shape[axis])] if axis == 1 else list(x)

    def chunk(self, x, parts):
        return jnp.split(x, parts, 1)

    def full(self, shape, value):
        return jnp.full(shape, value, self.dtype)

    def labels(self, count, classes):
        return jnp.arange(count) % classes

    def one_hot(self, labels, classes):
        return jax.nn.one_hot(labels, classes, dtype=self.dtype)


def training(request):
    s, parameters, loss, optimizer, input_trained = models.net(request["model"], request.get("sizes", {}))
    x = Jax(jnp.float32)
    rng = numpy.random.default_rng(1)
    p = {n: jnp.asarray(rng.uniform(-1, 1, shape) * scale, jnp.float32) for n, (shape, scale) in parameters.items()}
    fixed = {} if input_trained else {"in0": p.pop("in0")}
    lr, clip, momentum, adam = optimizer["lr"], optimizer.get("clip"), optimizer.get("momentum", 0), optimizer["kind"] == "adam"
    zeros = lambda: {n: jnp.zeros_like(v) for n, v in p.items()}  # noqa: E731
    state = {"m": zeros(), "v": zeros(), "t": jnp.zeros(())} if adam else {"m": zeros()} if momentum else {}

    def update(p, state):
        g = jax.grad(lambda q: loss(x, {**q, **fixed}, s))(p)
        if clip:
            norm = jnp.sqrt(sum(jnp.sum(v * v) for v in g.values()))
            g = {n: v * jnp.minimum(1.0, clip / (norm + 1e-6)) for n, v in g.items()}
        if adam:
            t = state["t"] + 1
            m = {n: 0.9 * state["m"][n] + 0.1 * g[n] for n in g}
            v = {n: 0.999 * state["v"][n] + 0.001 * g[n] ** 2 for n in g}
            c1, c2 = 1 / (1 - 0.9 ** t), 1 / (1 - 0.999 ** t)
            return {n: p[n] - lr * (m[n] * c1) / (jnp.sqrt(v[n] * c2) + 1e-8) for n in p}, {"m": m, "v": v, "t": t}
        if momentum:
            m = {n: momentum * state["m"][n] + g[n] for n in g}
            return {n: p[n] - lr * m[n] for n in p}, {"m": m}
        return {n: p[n] - lr * g[n] for n in p}, state

    compiled = jax.jit(update, donate_argnums=(0, 1))
    now = [p, state]

    def step():
        now[:] = compiled(*now)

    return step, lambda: jax.block_until_ready(now), 2e-3


if __name__ == "__main__":
    if a.check:
        sys.exit(models.check(a.check, Jax(jnp.float64), jnp.asarray))
    device = jax.devices()[0]
    turns.serve({"name": "JAX", "version": jax.__version__, "threads": a.threads, "device": device.device_kind}, training)
