#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the benchmark: torch_peer.py --device cuda answers lines of standard input, see turns.py.

    {"op": "gemm", "shape": {..}, "type": "f32", "tf32": false}        one product or convolution, forward
    {"model": "milstm", "sizes": {"B": 1}, "mode": "eager"}            one training step; also cudagraph, compile, reduce-overhead

    torch_peer.py --check models.ref     the losses of models.py in double precision against the references
"""
import os
import sys

import turns

a = turns.arguments()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # read once, when the libraries are loaded
    os.environ[variable] = str(a.threads)
if a.device == "cpu":
    os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx512" if "avx512f" in open("/proc/cpuinfo").read() else "avx2")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import models  # noqa: E402

torch.set_num_threads(a.threads)
torch.manual_seed(1)
CUDA = a.device.startswith("cuda")
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}


class Torch:
    """What models.py calls."""

    def __init__(self, device, dtype):
        self.device, self.dtype = device, dtype
        self.relu, self.sigmoid, self.tanh, self.elu, self.sqrt = torch.relu, torch.sigmoid, torch.tanh, F.elu, torch.sqrt
        self.einsum, self.cross_entropy, self.mean, self.linear = torch.einsum, F.cross_entropy, torch.mean, F.linear

    def conv2d(self, x, w, bias=None, stride=1, pad=0):
        return F.conv2d(x, w, bias, stride, pad)

    def sum(self, x, axis, keep=False):
        return x.sum(axis, keepdim=keep)

    def softmax(self, x):
        return F.softmax(x, -1)

    def transpose(self, x, order):
        return x.permute(order)

    def split(self, x, axis):
        return x.unbind(axis)  # one gradient for all: an index each would cost a whole zero gradient each

    def chunk(self, x, parts):
        return x.chunk(parts, 1)

    def full(self, shape, value):
        return torch.full(shape, value, device=self.device, dtype=self.dtype)

    def labels(self, count, classes):
        return torch.arange(count, device=self.device) % classes

    def one_hot(self, labels, classes):
        return (labels[:, None] == torch.arange(classes, device=self.device)).to(self.dtype)


def synchronized():
    if CUDA:
        torch.cuda.synchronize()


def captured(step):
    """The whole step as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def precision(tf32):
    if CUDA:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True


def operator(request):
    precision(request.get("tf32", False))
    s, dtype = request["shape"], TYPES[request["type"]]
    data = lambda *shape: (torch.rand(shape, device=a.device) * 2 - 1).to(dtype)  # noqa: E731
    if request["op"] == "gemm":
        x, y = data(s["m"], s["k"]), data(s["k"], s["n"])
        out = torch.empty(s["m"], s["n"], device=a.device, dtype=dtype)
        call = lambda: torch.mm(x, y, out=out)  # noqa: E731
    else:
        x = data(s["batch"], s["channels"], s["height"], s["height"])
        w = data(s["out_channels"], s["channels"] // s["groups"], s["window"], s["window"])
        call = lambda: F.conv2d(x, w, None, s["stride"], s["pad"], s["dilation"], s["groups"])  # noqa: E731

    def step():
        with torch.no_grad():
            call()

    # A graph of the call alone: its kernels' time, as ours is, without the time that Python takes to start them.
    return captured(step) if CUDA else step, synchronized, 200e-6 if CUDA else 50e-6


def training(request):
    precision(request.get("tf32", False))
    mode = request.get("mode", "eager")
    s, parameters, loss, optimizer, input_trained = models.net(request["model"], request.get("sizes", {}))
    x = Torch(a.device, torch.float32)
    p = {n: (torch.rand(shape, device=a.device) * 2 - 1) * scale for n, (shape, scale) in parameters.items()}
    trained = [t.requires_grad_() for n, t in p.items() if n != "in0" or input_trained]
    f = lambda: loss(x, p, s)  # noqa: E731
    if mode in ("compile", "reduce-overhead"):
        torch._dynamo.reset()  # every net is the same function to it, of which it compiles eight and runs the rest eagerly
        f = torch.compile(f, mode=None if mode == "compile" else mode)
    new = int(torch.__version__.split(".")[0]) >= 2
    fast = {"fused": True} if CUDA and new else {"foreach": True}
    if optimizer["kind"] == "adam":
        o = torch.optim.Adam(trained, lr=optimizer["lr"], **fast, **({"capturable": True} if CUDA else {}))
    else:
        o = torch.optim.SGD(trained, lr=optimizer["lr"], momentum=optimizer.get("momentum", 0), **fast)
    clip = optimizer.get("clip")

    def step():
        o.zero_grad(set_to_none=True)
        f().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(trained, clip)
        o.step()

    if mode == "cudagraph":
        step = captured(step)
    return step, synchronized, 2e-3


if __name__ == "__main__":
    if a.check:
        sys.exit(models.check(a.check, Torch("cpu", torch.float64), torch.tensor))
    about = {"name": "PyTorch", "version": torch.__version__, "threads": a.threads}
    if CUDA:
        about.update(device=torch.cuda.get_device_name(), cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(),
                     capability=list(torch.cuda.get_device_capability()))
    turns.serve(about, lambda request: training(request) if "model" in request else operator(request))
