"""Transformers and taggers with random weights, built node by node: an encoder, a decoder's step, a recurrent tagger.

They have the shape of what exporters write: products with constant matrices on the right, biases added, heads moved by
Reshape and Transpose, GELU spelled out by Erf or Tanh. All sizes of batch, sequence and past are dynamic.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["decoder_inputs", "decoder_step", "encoder", "encoder_inputs", "recurrent", "tagger", "tagger_inputs"]

_WORDS = 1000
_POSITIONS = 512


class _Graph:
    """A graph that grows by one node at a time."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def add(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: object) -> str:
        """Add a node and return the name of its output; the names of several, joined by a space."""
        names = [f"{kind}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return " ".join(names)

    def constant(self, value: object, dtype: str = "float32") -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int, spread: float | None = None) -> str:
        scale = shape[-2] ** -0.5 if spread is None else spread
        return self.constant(scale * self.random.standard_normal(shape))

    def near_one(self, size: int) -> str:
        return self.constant(self.random.uniform(0.8, 1.2, size))

    def linear(self, x: str, inner: int, units: int) -> str:
        product = self.add("MatMul", x, self.weight(inner, units))
        return self.add("Add", self.weight(units, spread=0.1), product)

    def normalized(self, x: str, size: int) -> str:
        return self.add("LayerNormalization", x, self.near_one(size), self.weight(size, spread=0.1), epsilon=1e-5)

    def model(self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]) -> onnx.ModelProto:
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "model", list(inputs), results, self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def heads(self, x: str, count: int, width: int, order: Sequence[int]) -> str:
        split = self.add("Reshape", x, self.constant([0, 0, count, width], "int64"))
        return self.add("Transpose", split, perm=list(order))

    def joined(self, x: str, size: int) -> str:
        moved = self.add("Transpose", x, perm=[0, 2, 1, 3])
        return self.add("Reshape", moved, self.constant([0, 0, size], "int64"))


def encoder(layers: int = 2, hidden: int = 768, heads: int = 12, inner: int = 3072) -> onnx.ModelProto:
    """Return an encoder as BERT is: ids and a mask of (batch, sequence) in, hidden states out."""
    g, width = _Graph(), hidden // heads
    words = g.add("Gather", g.weight(_WORDS, hidden, spread=1), "ids")
    length = g.add("Gather", g.add("Shape", "ids"), g.constant([1], "int64"))
    zero, one = g.constant([0], "int64"), g.constant([0], "int64")
    places = g.add("Slice", g.weight(_POSITIONS, hidden, spread=1), zero, length, one)
    x = g.normalized(g.add("Add", words, places), hidden)
    mask = g.add("Unsqueeze", "mask", g.constant([1, 2], "int64"))
    mask = g.add("Sub", g.constant(1.0), g.add("Cast", mask, to=TensorProto.FLOAT))
    mask = g.add("Mul", mask, g.constant(-10000.0))
    for _ in range(layers):
        q, k, v = (
            g.heads(g.linear(x, hidden, hidden), heads, width, order)
            for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = g.add("Div", g.add("MatMul", q, k), g.constant(width**0.5))
        weights = g.add("Softmax", g.add("Add", scores, mask), axis=-1)
        context = g.joined(g.add("MatMul", weights, v), hidden)
        x = g.normalized(g.add("Add", g.linear(context, hidden, hidden), x), hidden)
        h = g.linear(x, hidden, inner)
        gate = g.add("Add", g.add("Erf", g.add("Div", h, g.constant(2**0.5))), g.constant(1.0))
        h = g.add("Mul", g.add("Mul", h, gate), g.constant(0.5))
        x = g.normalized(g.add("Add", g.linear(h, inner, hidden), x), hidden)
    ids, mask_in = (helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "length"]) for n in ("ids", "mask"))
    return g.model([ids, mask_in], [x])


def encoder_inputs(batch: int, length: int) -> dict[str, np.ndarray]:
    """Return ids, and a mask that leaves out the end of every sequence but the first."""
    random = np.random.default_rng(0)
    mask = np.ones((batch, length), "int64")
    mask[1:, -(length // 4) :] = 0
    return {"ids": random.integers(0, _WORDS, (batch, length)), "mask": mask}


def decoder_step(layers: int = 2, hidden: int = 768, heads: int = 12) -> onnx.ModelProto:
    """Return a decoder's step as GPT-2's is: an id and the keys and values so far in; logits and the grown ones out."""
    g, width = _Graph(), hidden // heads
    table = g.weight(_WORDS, hidden, spread=0.5)
    past = g.add("Gather", g.add("Shape", "k0"), g.constant([2], "int64"))
    x = g.add("Add", g.add("Gather", table, "ids"), g.add("Gather", g.weight(_POSITIONS, hidden, spread=0.5), past))
    cache: list[str] = []
    for layer in range(layers):
        normal = g.normalized(x, hidden)
        parts = g.linear(normal, hidden, 3 * hidden)
        q, k, v = g.add("Split", parts, outputs=3, axis=2).split()
        q, k, v = (g.heads(p, heads, width, [0, 2, 1, 3]) for p in (q, k, v))
        k, v = g.add("Concat", f"k{layer}", k, axis=2), g.add("Concat", f"v{layer}", v, axis=2)
        cache += [k, v]
        scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2]))
        weights = g.add("Softmax", g.add("Mul", scores, g.constant(width**-0.5)), axis=-1)
        x = g.add("Add", x, g.linear(g.joined(g.add("MatMul", weights, v), hidden), hidden, hidden))
        h = g.linear(g.normalized(x, hidden), hidden, 4 * hidden)
        cube = g.add("Mul", g.add("Pow", h, g.constant(3.0)), g.constant(0.044715))
        gate = g.add("Tanh", g.add("Mul", g.add("Add", h, cube), g.constant((2 / np.pi) ** 0.5)))
        h = g.add("Mul", g.add("Mul", h, g.constant(0.5)), g.add("Add", gate, g.constant(1.0)))
        x = g.add("Add", x, g.linear(h, 4 * hidden, hidden))
    logits = g.add("MatMul", g.normalized(x, hidden), g.weight(hidden, 8 * _WORDS))
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 1])]
    for name in (f"{kind}{layer}" for layer in range(layers) for kind in "kv"):
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", heads, "past", width]))
    return g.model(inputs, [logits, *cache])


def decoder_inputs(batch: int, past: int, layers: int = 2, hidden: int = 768, heads: int = 12) -> dict[str, np.ndarray]:
    """Return an id for each of a batch, and random keys and values."""
    random = np.random.default_rng(0)
    shape = (batch, heads, past, hidden // heads)
    names = [f"{kind}{layer}" for layer in range(layers) for kind in "kv"]
    caches = {name: random.standard_normal(shape, dtype="float32") for name in names}
    return {"ids": random.integers(0, _WORDS, (batch, 1)), **caches}


def tagger(features: int = 128, hidden: int = 128, tags: int = 20) -> onnx.ModelProto:
    """Return an LSTM of both directions over embedded ids of (length, batch), and scores of tags."""
    g = _Graph()
    x = g.add("Gather", g.weight(_WORDS, features, spread=1), "ids")
    w, r = g.weight(2, 4 * hidden, features, spread=0.08), g.weight(2, 4 * hidden, hidden, spread=0.08)
    bias = g.weight(2, 8 * hidden, spread=0.1)
    states = g.add("LSTM", x, w, r, bias, hidden_size=hidden, direction="bidirectional")
    joined = g.add("Reshape", g.add("Transpose", states, perm=[0, 2, 1, 3]), g.constant([0, 0, 2 * hidden], "int64"))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["length", "batch"])
    return g.model([ids], [g.linear(joined, 2 * hidden, tags)])


def tagger_inputs(batch: int, length: int) -> dict[str, np.ndarray]:
    """Return random ids."""
    return {"ids": np.random.default_rng(0).integers(0, _WORDS, (length, batch))}


def recurrent(features: int, hidden: int, layers: int, units: int) -> onnx.ModelProto:
    """Return layers of LSTM in both directions over ``x`` (length, batch, features), and units for each step."""
    g, x, width = _Graph(), "x", features
    for _ in range(layers):
        w, r = g.weight(2, 4 * hidden, width, spread=0.08), g.weight(2, 4 * hidden, hidden, spread=0.08)
        states = g.add(
            "LSTM", x, w, r, g.weight(2, 8 * hidden, spread=0.1), hidden_size=hidden, direction="bidirectional"
        )
        moved, width = g.add("Transpose", states, perm=[0, 2, 1, 3]), 2 * hidden
        x = g.add("Reshape", moved, g.constant([0, 0, width], "int64"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["length", "batch", features])
    return g.model([given], [g.linear(x, width, units)])
