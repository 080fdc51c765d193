"""Layers of networks: products, convolutions, pools, recurrent layers, attention, branches and loops."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .graph import Graph, Value, frequent, template, window_fits

__all__: list[str] = []


@frequent
def dense(g: Graph) -> None:
    x = g.floats(1, 2, 3, 4)
    if not x.is_fixed(x.rank - 1):
        return
    out = g.choice([1, 3, 8, 16, 33])
    (product,) = g.add("MatMul", [x, _columns(g, x.shape[-1], out)])
    if g.chance(0.6):
        (product,) = g.add("Add", [product, g.constant(g.random.normal(size=out), "float32")])
    if g.chance(0.4):
        g.add(g.choice(["Relu", "Tanh", "Sigmoid"]), [product])


def _columns(g: Graph, k: int, n: int) -> str:
    return g.constant(g.random.normal(size=(k, n)) / np.sqrt(k), "float32")


@template
def general_product(g: Graph) -> None:
    x = g.floats(2)
    if not x.is_fixed(1):
        return
    out = g.choice([1, 4, 17])
    bias = [g.constant(g.random.normal(size=g.choice([out, 1])), "float32")] if g.chance(0.7) else []
    g.add(
        "Gemm", [x, g.weight(out, x.shape[1]), *bias], transB=1, alpha=g.choice([1.0, 0.5]), beta=g.choice([1.0, 2.0])
    )


@frequent
def product_of_both(g: Graph) -> None:
    """Scores of rows with each other, as attention has them, and what they choose."""
    x = g.floats(3, 4)
    perm = list(range(x.rank))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    (other,) = g.add("Transpose", [x], exact=True, perm=perm)
    (scores,) = g.add("MatMul", [x, other])
    (scaled,) = g.add("Mul", [scores, g.constant(np.float32(0.2))])
    (shares,) = g.add("Softmax", [scaled], axis=-1)
    if g.chance(0.7):
        g.add("MatMul", [shares, x])


@frequent
def convolution(g: Graph) -> None:
    x = g.floats(4)
    if not x.is_fixed(1):
        return
    c = x.shape[1]
    kind = g.choice(["plain", "plain", "one", "depthwise", "grouped"])
    window = [1, 1] if kind == "one" else g.choice([[3, 3], [3, 3], [1, 3], [5, 5], [2, 2], [3, 1]])
    groups = {"depthwise": c, "grouped": 2 if c % 2 == 0 else 1}.get(kind, 1)
    out = groups * g.choice([1, 2]) if kind == "depthwise" else groups * g.choice([1, 3, 8, 16])
    if out > 64:
        return
    dilations = g.choice([[1, 1], [1, 1], [1, 1], [2, 2], [1, 2]])
    pads = g.choice([[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0], [2, 2, 2, 2]])
    bias = [g.constant(g.random.normal(size=out), "float32")] if g.chance() else []
    (y,) = g.add(
        "Conv",
        [x, g.weight(out, c // groups, *window), *bias],
        group=groups,
        pads=pads,
        strides=g.choice([[1, 1], [1, 1], [2, 2], [2, 1]]),
        dilations=dilations,
    )
    _activated(g, y)


def _activated(g: Graph, y: Value) -> None:
    if g.chance(0.5):
        g.add(g.choice(["Relu", "LeakyRelu", "Sigmoid", "HardSwish"]), [y])


@frequent
def line_convolution(g: Graph) -> None:
    x = g.floats(3)
    if not x.is_fixed(1):
        return
    c = x.shape[1]
    groups = c if g.chance(0.3) else 1
    out = groups if groups > 1 else g.choice([1, 4, 16])
    window = g.choice([1, 2, 3, 7])
    (y,) = g.add(
        "Conv",
        [x, g.weight(out, c // groups, window)],
        group=groups,
        strides=[g.choice([1, 1, 2])],
        pads=g.choice([[0, 0], [window - 1, 0], [1, 1], [3, 3]]),
        dilations=[g.choice([1, 1, 2])],
    )
    _activated(g, y)


@template
def transposed_convolution(g: Graph) -> None:
    x = g.floats(4)
    if not x.is_fixed(1):
        return
    window = g.choice([[2, 2], [3, 3], [4, 4]])
    g.add(
        "ConvTranspose",
        [x, g.weight(x.shape[1], g.choice([1, 4, 8]), *window)],
        strides=g.choice([[1, 1], [2, 2]]),
        pads=g.choice([[0, 0, 0, 0], [1, 1, 1, 1]]),
    )


@template
def mean_pool(g: Graph) -> None:
    if g.chance(0.3):
        g.add(g.choice(["GlobalAveragePool", "GlobalMaxPool"]), [g.floats(3, 4)])
        return
    x = g.floats(4)
    window, pads = g.choice([[2, 2], [3, 3], [3, 2]]), g.choice([[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]])
    if not window_fits(x, window, pads):
        return
    flags = {"count_include_pad": g.integer(0, 1), "ceil_mode": g.integer(0, 1)}
    g.add("AveragePool", [x], kernel_shape=window, strides=g.choice([[1, 1], [2, 2]]), pads=pads, **flags)


@template
def linear_resize(g: Graph) -> None:
    # Where aligned corners meet a size that is not the old one times the scale, onnxruntime and the standard disagree.
    mode, fraction = g.choice([("half_pixel", 0.5), ("asymmetric", 1.5), ("align_corners", 2)])
    scales = g.constant([1, 1, fraction, g.choice([2, fraction])], "float32")
    g.add("Resize", [g.floats(4), "", scales], mode="linear", coordinate_transformation_mode=mode)


@template
def recurrent(g: Graph) -> None:
    x = g.floats(3)
    if not x.is_fixed(2):
        return
    kind, gates = g.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    hidden, direction = g.choice([3, 8]), g.choice(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1
    weights = [g.weight(count, gates * hidden, x.shape[2]), g.weight(count, gates * hidden, hidden)]
    bias = [g.constant(g.random.normal(size=(count, 2 * gates * hidden)), "float32")] if g.chance() else []
    g.add(kind, [x, *weights, *bias], 3 if kind == "LSTM" else 2, hidden_size=hidden, direction=direction)


@template
def einsum(g: Graph) -> None:
    x = g.floats(3)
    g.add("Einsum", [x, x], equation=g.choice(["bij,bkj->bik", "bij,bij->bi", "bij,bij->j", "bij,bkj->bki"]))


@template
def dynamic_product(g: Graph) -> None:
    """A product of integers that are quantised as it runs, as onnxruntime writes a dense layer."""
    x = g.floats(2, 3, exact=True)
    if not x.is_fixed(x.rank - 1):
        return
    numbers, scale, zero = g.add("DynamicQuantizeLinear", [x], 3, exact=True)
    # Of seven bits: onnxruntime's sums of two products of larger ones saturate on processors without VNNI.
    weights = g.constant(g.random.integers(-64, 64, size=(x.shape[-1], 8)), "int8")
    (sums,) = g.add("MatMulInteger", [numbers, weights, zero], exact=True)
    (real,) = g.add("Cast", [sums], to=1)
    (scaled,) = g.add("Mul", [real, scale])
    g.add("Mul", [scaled, g.constant(np.float32(0.01))])


@template
def branch(g: Graph) -> None:
    """One of two curves, by a number that the graph computes; both read a value from outside."""
    x, other = g.floats(), g.floats(exact=True)
    (top,) = g.add("ReduceMax", [other], exact=True, keepdims=0)
    (flag,) = g.add("Greater", [top, g.constant(np.float32(g.choice([0.5, 2.5])))], exact=True)
    graphs = []
    for name in g.choice([("Tanh", "Neg"), ("Relu", "Sigmoid"), ("Identity", "Abs")]):
        out = f"b{len(g.nodes)}_{name}"
        info = helper.make_tensor_value_info(out, TensorProto.FLOAT, None)
        graphs.append(helper.make_graph([helper.make_node(name, [x.name], [out])], out, [], [info]))
    g.add("If", [flag], outer=[x], then_branch=graphs[0], else_branch=graphs[1])


@template
def loop(g: Graph) -> None:
    """A few steps of x = tanh(x + y)."""
    x = g.floats()
    prefix = f"l{len(g.nodes)}"
    names = [f"{prefix}_{part}" for part in ("i", "more", "x", "sum", "next", "going")]
    i, more, carried, total, following, going = names
    body = helper.make_graph(
        [
            helper.make_node("Add", [carried, x.name], [total]),
            helper.make_node("Tanh", [total], [following]),
            helper.make_node("Identity", [more], [going]),
        ],
        prefix,
        [
            helper.make_tensor_value_info(i, TensorProto.INT64, []),
            helper.make_tensor_value_info(more, TensorProto.BOOL, []),
            helper.make_tensor_value_info(carried, TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
            helper.make_tensor_value_info(following, TensorProto.FLOAT, None),
        ],
    )
    g.add("Loop", [g.constant(g.integer(0, 3), "int64"), "", x], outer=[x], body=body)
