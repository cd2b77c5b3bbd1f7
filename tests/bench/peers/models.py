# SPDX-License-Identifier: Apache-2.0
"""The nets of tests/bench/models and of the examples as a careful user of another system writes them, once for PyTorch and once for JAX: `x`
is torch_peer.Torch or jax_peer.Jax. Parameters have the notebooks' names and shapes.

What such a user does for speed is done: products with the input are made for all time steps at once, several convolutions of one picture
are one, and tensors that many steps read are split once.

A net is (sizes, parameters(sizes), loss(x, p, sizes), optimizer). parameters: name -> (shape, scale): uniform in +-scale, 0: zeros.
"""

SGD = {"kind": "sgd", "lr": 1e-4}
RECURRENT = {"B": 16, "T": 28, "X": 28, "H": 128, "N": 10}


def readout(x, p, h, s):
    return x.cross_entropy(x.linear(h, p["out.W"], p["out.bias"]), x.labels(s["B"], s["N"]))


def gated(gates, recurrent, columns=None):
    """Parameters of a cell with `gates` gates whose recurrent weight is called `recurrent`; columns: one weight for state and input."""
    def parameters(s):
        scale = s["H"] ** -0.5
        cell = {"h.W": ((gates, s["H"], s["H"] + s["X"]), scale)} if columns else {
            "h.W": ((gates, s["H"], s["X"]), scale), "h." + recurrent: ((gates, s["H"], s["H"]), scale)}
        return {"in0": ((s["B"], s["T"], s["X"]), 1.7), **cell, "h.offset": ((gates, s["H"]), scale),
                "out.W": ((s["N"], s["H"]), scale), "out.bias": ((s["N"],), scale)}
    return parameters


def milstm(x, p, s):
    H = s["H"]
    U, offset = p["h.U"].reshape(4 * H, H), p["h.offset"].reshape(-1)
    h, c = x.full((s["B"], H), 0.5), x.full((s["B"], H), 0.0)
    for a in x.split(x.linear(p["in0"], p["h.W"].reshape(4 * H, -1)), 1):
        i, f, g, o = x.chunk(a * x.linear(h, U) + offset, 4)
        c = x.sigmoid(f) * c + x.sigmoid(i) * x.tanh(g)
        h = x.sigmoid(o) * x.tanh(c)
    return readout(x, p, h, s)


def sublstm(x, p, s):
    H = s["H"]
    R = p["h.R"].reshape(4 * H, H)
    h = c = x.full((s["B"], H), 0.0)
    for a in x.split(x.linear(p["in0"], p["h.W"].reshape(4 * H, -1), p["h.offset"].reshape(-1)), 1):
        i, f, z, o = x.chunk(x.sigmoid(a + x.linear(h, R)), 4)
        c = f * c + z - i
        h = x.sigmoid(c) - o
    return readout(x, p, h, s)


def lltm(x, p, s):
    H = s["H"]
    W = p["h.W"].reshape(3 * H, -1)
    Wh, Wx = W[:, :H], W[:, H:]
    h = c = x.full((s["B"], H), 0.0)
    for a in x.split(x.linear(p["in0"], Wx, p["h.offset"].reshape(-1)), 1):
        i, o, g = x.chunk(a + x.linear(h, Wh), 3)
        c = c + x.elu(g) * x.sigmoid(i)
        h = x.tanh(c) * x.sigmoid(o)
    return readout(x, p, h, s)


def scrnn_parameters(s):
    scale = s["H"] ** -0.5
    return {"in0": ((s["B"], s["T"], s["X"]), 1.7), "h.Bx": ((s["S"], s["X"]), scale), "h.P": ((s["H"], s["S"]), scale),
            "h.A": ((s["H"], s["X"]), scale), "h.R": ((s["H"], s["H"]), scale), "U": ((s["N"], s["H"]), scale),
            "V": ((s["N"], s["S"]), scale)}


def scrnn(x, p, s):
    h, m = x.full((s["B"], s["H"]), 0.0), x.full((s["B"], s["S"]), 0.0)
    for b, a in zip(x.split(x.linear(p["in0"], p["h.Bx"]), 1), x.split(x.linear(p["in0"], p["h.A"]), 1)):
        m = 0.05 * b + 0.95 * m
        h = x.sigmoid(x.linear(m, p["h.P"]) + a + x.linear(h, p["h.R"]))
    return x.cross_entropy(x.linear(h, p["U"]) + x.linear(m, p["V"]), x.labels(s["B"], s["N"]))


def capconv_vec(x, p, s):
    """All elements' convolutions side by side are one with more output channels."""
    return x.mean(x.conv2d(p["in0"], p["out.F"].reshape(-1, s["C"], 3, 3), stride=s["S"], pad=1) ** 2)


def capconv_mat(x, p, s):
    """The row of a pose goes to the batch, its column to the channels: one convolution between two transposes."""
    B, C, H, W, K, I, M, J = (s[n] for n in "BCHWKIMJ")
    picture = x.transpose(p["in0"], (0, 4, 1, 5, 2, 3)).reshape(B * I, C * M, H, W)
    weight = x.transpose(p["weight"], (0, 5, 1, 4, 2, 3)).reshape(K * J, C * M, 3, 3)
    y = x.conv2d(picture, weight, stride=2, pad=1)
    y = x.transpose(y.reshape(B, I, K, J, y.shape[2], y.shape[3]), (0, 2, 4, 5, 1, 3))
    return x.mean(y ** 2)


def squash(x, s):
    q = x.sum(s * s, -1, keep=True)
    return s * (q / ((1 + q) * x.sqrt(q + 1e-8)))


def routed(x, votes, labels, classes):
    """Three rounds of routing, then the margin loss of the lengths."""
    share = None
    for routing in range(3):
        agreed = x.sum(votes, 1) / classes if share is None else x.sum(x.softmax(share)[..., None] * votes, 1)
        v = squash(x, agreed)
        if routing < 2:
            step = x.sum(votes * v[:, None], -1)
            share = step if share is None else share + step
    length = x.sqrt(x.sum(v * v, -1) + 1e-8)
    t = x.one_hot(labels, classes)
    return x.mean(x.sum(t * x.relu(0.9 - length) ** 2 + 0.5 * (1 - t) * x.relu(length - 0.1) ** 2, 1))


def capsnet_parameters(s):
    G = (s["H"] - s["R"] - s["Q"] + 1) // 2 + 1
    return {"in0": ((s["B"], 1, s["H"], s["H"]), 1.7), "stem.F": ((s["K"], 1, s["R"], s["R"]), 1 / s["R"]), "stem.offset": ((s["K"],), 0.1),
            "pw": ((s["D"], s["A"], s["K"], s["Q"], s["Q"]), 0.03), "pb": ((s["D"], s["A"]), 0.0),
            "W": ((s["A"] * G * G, s["N"], s["D"], s["E"]), 0.08)}


def capsnet(x, p, s):
    y = x.relu(x.conv2d(p["in0"], p["stem.F"], p["stem.offset"]))
    u = x.conv2d(y, p["pw"].reshape(-1, s["K"], s["Q"], s["Q"]), p["pb"].reshape(-1), stride=2)
    u = x.transpose(u.reshape(s["B"], s["D"], -1), (0, 2, 1))
    votes = x.einsum("bid,inde->bine", squash(x, u), p["W"])
    return routed(x, votes, x.labels(s["B"], s["N"]), s["N"])


def digits_parameters(s):
    return {"in0": ((s["B"], 1, 8, 8), 1.0), "F1": ((64, 1, 3, 3), 1 / 3), "b1": ((64,), 1 / 3), "F2": ((64, 64, 3, 3), 1 / 24),
            "b2": ((64,), 1 / 24), "W": ((32, 10, 16, 8), 0.17)}


def digits_capsnet(x, p, s):
    h = x.conv2d(x.relu(x.conv2d(p["in0"], p["F1"], p["b1"])), p["F2"], p["b2"], stride=2)
    u = x.transpose(h.reshape(s["B"], 8, 8, 4), (0, 2, 3, 1)).reshape(s["B"], 32, 8)
    votes = x.einsum("bid,ined->bine", squash(x, u), p["W"])
    return routed(x, votes, x.labels(s["B"], 10), 10)


def welcome(x, p, s):
    B, C, K, H = s["B"], s["C"], s["K"], s["H"]
    side = 2 * H + 1
    picture = x.transpose(p["in0"], (0, 4, 1, 5, 2, 3)).reshape(B * 4, C * 4, side, side)
    weight = x.transpose(p["W"], (0, 5, 1, 4, 2, 3)).reshape(K * 4, C * 4, 3, 3)
    return x.mean((x.conv2d(picture, weight, stride=2) - 1) ** 2)


NETS = {
    "milstm": (RECURRENT, gated(4, "U"), milstm, SGD),
    "sublstm": (RECURRENT, gated(4, "R"), sublstm, SGD),
    "lltm": (RECURRENT, gated(3, "", columns=True), lltm, SGD),
    "scrnn": ({**RECURRENT, "S": 40}, scrnn_parameters, scrnn, SGD),
    "capconv_vec": ({"B": 1, "C": 64, "H": 28, "W": 28, "K": 256, "M": 8, "S": 2},
                    lambda s: {"in0": ((s["B"], s["C"], s["H"], s["W"]), 1.7), "out.F": ((s["M"], s["K"], s["C"], 3, 3), 0.08)},
                    capconv_vec, SGD),
    "capconv_mat": ({"B": 1, "C": 64, "H": 28, "W": 28, "K": 256, "I": 2, "M": 4, "J": 4},
                    lambda s: {"in0": ((s["B"], s["C"], s["H"], s["W"], s["I"], s["M"]), 1.7),
                               "weight": ((s["K"], s["C"], 3, 3, s["M"], s["J"]), 0.08)}, capconv_mat, SGD),
    "capsnet": ({"B": 16, "H": 28, "K": 256, "R": 9, "Q": 9, "A": 32, "D": 8, "N": 10, "E": 16}, capsnet_parameters, capsnet, SGD),
    # The examples, with their optimizers.
    "digits_capsnet": ({"B": 64}, digits_parameters, digits_capsnet, {"kind": "adam", "lr": 1e-3}),
    "milstm_digits": ({"B": 64, "T": 8, "X": 8, "H": 48, "N": 10}, gated(4, "U"), milstm, {"kind": "adam", "lr": 3e-3, "clip": 1.0}),
    "welcome": ({"B": 1, "C": 4, "K": 16, "H": 14, "R": 3},
                lambda s: {"in0": ((s["B"], s["C"], 2 * s["H"] + 1, 2 * s["H"] + 1, 4, 4), 1.7), "W": ((s["K"], s["C"], 3, 3, 4, 4), 0.08)},
                welcome, {"kind": "sgd", "lr": 0.1, "momentum": 0.9}),
}
# A step makes the input's gradient too, and the optimizer moves it, where the notebook declares it a parameter.
TRAINED_INPUTS = {"capconv_vec", "capconv_mat"}


def net(name, sizes):
    default, parameters, loss, optimizer = NETS[name]
    s = {**default, **sizes}
    return s, parameters(s), loss, optimizer, name in TRAINED_INPUTS


# Of tests/data/models.ref, for a check of these functions.
REFERENCE_SIZES = {
    **{n: {"B": 3, "T": 4, "X": 5, "H": 6, "N": 3} for n in ("milstm", "sublstm", "lltm")},
    "scrnn": {"B": 3, "T": 4, "X": 5, "H": 6, "N": 3, "S": 3},
    "capconv_vec": {"B": 3, "C": 3, "H": 7, "W": 6, "K": 5, "M": 4},
    "capconv_mat": {"B": 3, "C": 3, "H": 7, "W": 6, "K": 4, "I": 2, "M": 3, "J": 4},
    "capsnet": {"B": 3, "H": 12, "K": 4, "R": 5, "Q": 3, "A": 2, "D": 4, "N": 3, "E": 5},
}


def references(path):
    """NET -> {"in0": array, .., "loss": number} of a .ref file (its form: tests/data/make_references.py)."""
    import numpy
    found = {}
    with open(path, "rb") as f:
        while line := f.readline():
            name, kind, rank, *shape = line.decode().split()
            count = int(numpy.prod([int(e) for e in shape], dtype=numpy.int64)) if shape else 1
            data = numpy.frombuffer(f.read(count * int(kind[1])), dtype="<" + kind).astype("f8").reshape([int(e) for e in shape])
            net_name, _, tensor = name.partition("/")
            found.setdefault(net_name, {})[tensor] = data
    return found


def check(path, x, tensor):
    """The losses of the nets in double precision against the references of a .ref file; tensor(array): the system's own. 1: one differs."""
    failed = 0
    for name, values in references(path).items():
        if name not in REFERENCE_SIZES:
            continue
        s, _, loss, _, _ = net(name, REFERENCE_SIZES[name])
        got, wanted = float(loss(x, {n: tensor(v) for n, v in values.items()}, s)), float(values["loss"])
        good = abs(got - wanted) <= 1e-12 * max(1, abs(wanted))
        failed += not good
        print(f"{'equal  ' if good else 'DIFFERS'} {name}: {got!r}, {wanted!r}")
    return 1 if failed else 0
