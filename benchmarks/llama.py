"""A small Llama with 4-bit weights, random ones: a step of it, as builders for onnxruntime's generation write them.

Products are MatMulNBits, embeddings GatherBlockQuantized, attention is GroupQueryAttention with rotary positions over
keys and values that are handed in and out (Touvron et al., "LLaMA"; Ainslie et al., "GQA").
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["LlamaSizes", "llama", "llama_inputs"]

_MICROSOFT = "com.microsoft"
_EPSILON = 1e-5


@dataclass(frozen=True)
class LlamaSizes:
    """The sizes of a Llama; keys and values have `kept_heads` heads; `block` inputs of an output share a scale."""

    layers: int = 8
    hidden: int = 1024
    heads: int = 16
    kept_heads: int = 4
    inner: int = 2816
    words: int = 8192
    block: int = 32
    accuracy: int = 4
    most_positions: int = 2048

    @property
    def width(self) -> int:
        """Of a head."""
        return self.hidden // self.heads


@dataclass
class _Graph:
    sizes: LlamaSizes
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, domain=domain, **attributes))
        return name

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def linear(self, x: str, channels: int, units: int) -> str:
        s, blocks = self.sizes, -(-channels // self.sizes.block)
        codes = self.random.integers(0, 256, (units, blocks, s.block // 2), "uint8")
        scales = (self.random.random((units, blocks), "float32") + 0.5) / (8 * channels**0.5)
        operands = [self.constant(codes), self.constant(scales.astype("float32"))]
        what = {"K": channels, "N": units, "bits": 4, "block_size": s.block, "accuracy_level": s.accuracy}
        return self.add("MatMulNBits", x, *operands, domain=_MICROSOFT, **what)

    def normalized(self, x: str) -> str:
        scale = self.constant(self.random.uniform(0.8, 1.2, self.sizes.hidden).astype("float32"))
        return self.add("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=_EPSILON)

    def embedded(self) -> str:
        s = self.sizes
        codes = self.constant(self.random.integers(0, 256, (s.words, s.hidden // 2), "uint8"))
        scales = self.constant(self.random.random((s.words, s.hidden // 32), "float32") / 8)
        how = {"block_size": 32, "gather_axis": 0, "quantize_axis": 1, "bits": 4}
        return self.add("GatherBlockQuantized", codes, "ids", scales, domain=_MICROSOFT, **how)

    def places(self) -> list[str]:
        """Return the last place of each sequence, how many there are, and the rotations of all places."""
        s, one = self.sizes, self.constant(np.array([1]))
        last = self.add("Sub", self.add("ReduceSum", "mask", one, keepdims=0), one)
        count = self.add("Gather", self.add("Shape", "mask"), self.constant(np.array(1)))
        turns = np.arange(s.most_positions)[:, None] / 10000 ** (np.arange(s.width // 2) / (s.width // 2))
        integers = [self.add("Cast", value, to=TensorProto.INT32) for value in (last, count)]
        return [*integers, *(self.constant(f(turns).astype("float32")) for f in (np.cos, np.sin))]

    def layer(self, x: str, number: int, places: list[str]) -> str:
        s, attended = self.sizes, self.normalized(x)
        kept = s.kept_heads * s.width
        parts = [self.linear(attended, s.hidden, units) for units in (s.hidden, kept, kept)]
        inputs = [*parts, f"past_k{number}", f"past_v{number}", *places]
        names = [f"attended{number}", f"k{number}", f"v{number}"]
        heads = {"num_heads": s.heads, "kv_num_heads": s.kept_heads, "do_rotary": 1}
        self.nodes.append(helper.make_node("GroupQueryAttention", inputs, names, domain=_MICROSOFT, **heads))
        x = self.add("Add", x, self.linear(names[0], s.hidden, s.hidden))
        h = self.normalized(x)
        gate, up = (self.linear(h, s.hidden, s.inner) for _ in range(2))
        h = self.add("Mul", self.add("Mul", gate, self.add("Sigmoid", gate)), up)
        return self.add("Add", x, self.linear(h, s.inner, s.hidden))


def llama(sizes: LlamaSizes = LlamaSizes()) -> onnx.ModelProto:
    """Return a step: ids, a mask of all places, keys and values so far in; logits and the grown ones out."""
    g, s = _Graph(sizes), sizes
    places, x = g.places(), g.embedded()
    for number in range(s.layers):
        x = g.layer(x, number, places)
    logits = g.linear(g.normalized(x), s.hidden, s.words)
    tensor, names = helper.make_tensor_value_info, [f"{kind}{n}" for n in range(s.layers) for kind in "kv"]
    inputs = [tensor("ids", TensorProto.INT64, ["batch", "new"]), tensor("mask", TensorProto.INT64, ["batch", "all"])]
    shape = ["batch", s.kept_heads, "past", s.width]
    inputs += [tensor(f"past_{name}", TensorProto.FLOAT, shape) for name in names]
    outputs = [tensor(logits, TensorProto.FLOAT, ["batch", "new", s.words])]
    outputs += [tensor(name, TensorProto.FLOAT, ["batch", s.kept_heads, "all", s.width]) for name in names]
    graph = helper.make_graph(g.nodes, "llama", inputs, outputs, g.tensors)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def llama_inputs(new: int, past: int, sizes: LlamaSizes = LlamaSizes()) -> dict[str, np.ndarray]:
    """Return some new ids of one sequence, and random keys and values of its past."""
    random, s = np.random.default_rng(0), sizes
    names = [f"past_{kind}{n}" for n in range(s.layers) for kind in "kv"]
    caches = {name: random.standard_normal((1, s.kept_heads, past, s.width), "float32") for name in names}
    return {"ids": random.integers(0, s.words, (1, new)), "mask": np.ones((1, past + new), "int64"), **caches}
