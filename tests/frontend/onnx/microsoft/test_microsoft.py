"""Operators of com.microsoft, compared with onnxruntime at several sizes of one compilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import erf
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, model, node, session
from vmkit.errors import ModelError, VMError, VMKitError
from vmkit.relay.frontend import from_onnx

WIDTH = 8
X = {"x": (["b", "s", WIDTH], "float32")}
ROWS = [{"x": array(b, s, WIDTH)} for b, s in ((1, 3), (2, 5))]


def ms(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return node(op_type, inputs, outputs, domain="com.microsoft", **attributes)


def microsoft(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: str,
    constants: Mapping[str, Any] | None = None,
    integers: Mapping[str, int] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model whose outputs are float32 but for those that `integers` has the element type of."""
    proto = model(nodes, inputs, outputs, constants, opset)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = (integers or {}).get(output.name, TensorProto.FLOAT)
    return proto


def test_activations() -> None:
    nodes = [
        ms("Gelu", "x", "a"), ms("BiasGelu", "x w", "c"), ms("FastGelu", "x w", "d"), ms("FastGelu", "x", "e"),
        ms("QuickGelu", "x", "f", alpha=1.3),
    ]  # fmt: skip
    check(microsoft(nodes, X, "a c d e f", {"w": array(WIDTH, seed=3)}), *ROWS)


def test_normalisations_of_sums() -> None:
    nodes = [
        ms("SkipLayerNormalization", "x x g b c", "a _ _ s", epsilon=1e-5), ms("SkipLayerNormalization", "x k g", "d"),
        ms("SkipSimplifiedLayerNormalization", "x x g c", "e _ _ f"), node("SimplifiedLayerNormalization", "x g", "h"),
    ]  # fmt: skip
    constants = {n: array(WIDTH, seed=i) for i, n in enumerate("gbc")}
    inputs = X | {"k": ([1, "s", WIDTH], "float32")}
    feeds = [f | {"k": array(1, f["x"].shape[1], WIDTH, seed=4)} for f in ROWS]
    check(microsoft(nodes, inputs, "a s d e f h", constants), *feeds)


def test_layer_normalization_before_it_was_of_onnx() -> None:
    nodes = [node("LayerNormalization", "x g b", "a m i")]
    check(microsoft(nodes, X, "a m i", {"g": array(WIDTH, seed=1), "b": array(WIDTH, seed=2)}, opset=13), *ROWS)


def test_embeddings() -> None:
    nodes = [
        ms("EmbedLayerNormalization", "i t w p q g b m", "y k e", epsilon=1e-5),
        ms("EmbedLayerNormalization", "i _ w p _ g b", "z l"),
    ]
    tables = {
        "w": array(20, WIDTH), "p": array(9, WIDTH, seed=1), "q": array(2, WIDTH, seed=2), "g": array(WIDTH, seed=3),
        "b": array(WIDTH, seed=4),
    }  # fmt: skip
    inputs = {n: (["b", "s"], "int32") for n in "itm"}
    feeds = []
    for b, s in ((1, 3), (2, 5)):
        words = (np.arange(b * s).reshape(b, s) * 7 % 20).astype("int32")
        mask = (np.arange(s) < (s - np.arange(b))[:, None]).astype("int32")
        feeds.append({"i": words, "t": words % 2, "m": mask})
    integers = {"k": TensorProto.INT32, "l": TensorProto.INT32}
    check(microsoft(nodes, inputs, "y k e z l", tables, integers), *feeds)


def test_attention_with_every_kind_of_mask() -> None:
    nodes = [
        ms("Attention", "x w c", "a", num_heads=2), ms("Attention", "x w c m", "d", num_heads=2),
        ms("Attention", "x w c m", "e", num_heads=2, unidirectional=1), ms("Attention", "x w c n", "f", num_heads=2),
        ms("Attention", "x w c o", "g", num_heads=2, scale=0.3), ms("Attention", "x w c q", "h", num_heads=2),
        ms("Attention", "x v u", "i", num_heads=2, qkv_hidden_sizes=[4, 4, 6]),
    ]  # fmt: skip
    inputs = X | {
        "m": (["b", "s"], "int32"), "n": (["b"], "int32"), "o": (["twice"], "int32"), "q": (["b", "s", "s"], "int32"),
    }  # fmt: skip
    constants = {"w": array(8, 24), "c": array(24, seed=1), "v": array(8, 14, seed=2), "u": array(14, seed=3)}
    feeds = []
    for feed in ROWS:
        b, s, _ = feed["x"].shape
        ends = (s - np.arange(b)).astype("int32")
        mask = (np.arange(s) < ends[:, None]).astype("int32")
        starts = np.concatenate([ends, np.arange(b, dtype="int32")])
        feeds.append(feed | {"m": mask, "n": ends, "o": starts, "q": np.repeat(mask[:, None], s, 1)})
    check(microsoft(nodes, inputs, "a d e f g h i", constants), *feeds)


def test_attention_with_a_past() -> None:
    nodes = [ms("Attention", "x w c m p", "a r", num_heads=2, unidirectional=1)]
    inputs = X | {"p": ([2, "b", 2, "past", 4], "float32"), "m": (["b", "total"], "int32")}
    feeds = [
        {"x": array(b, s, WIDTH), "p": array(2, b, 2, p, 4, seed=3), "m": np.ones((b, s + p), "int32")}
        for b, s, p in ((1, 3, 2), (2, 1, 4))
    ]
    check(microsoft(nodes, inputs, "a r", {"w": array(8, 24), "c": array(24, seed=1)}), *feeds)


def test_attention_of_projected_inputs() -> None:
    nodes = [
        ms("MultiHeadAttention", "q k v c", "d", num_heads=2), ms("MultiHeadAttention", "q k v c m", "e", num_heads=2),
        ms("MultiHeadAttention", "q k v _ m a", "f", num_heads=2, mask_filter_value=-50.0),
        ms("MultiHeadAttention", "q pk pv", "g", num_heads=2),
        ms("MultiHeadAttention", "q q q _ _ _ pk pv", "h i j", num_heads=2, unidirectional=1),
    ]  # fmt: skip
    inputs = {
        "q": (["b", "s", 8], "float32"), "k": (["b", "t", 8], "float32"), "v": (["b", "t", 8], "float32"),
        "m": (["b", "t"], "int32"), "a": (["b", 1, "s", "t"], "float32"), "pk": (["b", 2, "p", 4], "float32"),
        "pv": (["b", 2, "p", 4], "float32"),
    }  # fmt: skip
    feeds = [
        {
            "q": array(b, s, 8), "k": array(b, t, 8, seed=1), "v": array(b, t, 8, seed=2),
            "m": (np.arange(t) < (t - np.arange(b))[:, None]).astype("int32"), "a": array(b, 1, s, t, seed=9),
            "pk": array(b, 2, p, 4, seed=3), "pv": array(b, 2, p, 4, seed=4),
        }
        for b, s, t, p in ((1, 3, 4, 2), (2, 5, 5, 1))
    ]  # fmt: skip
    check(microsoft(nodes, inputs, "d e f g h i j", {"c": array(24, seed=7)}), *feeds)


def test_attention_of_packed_inputs() -> None:
    nodes = [ms("MultiHeadAttention", "p", "y", num_heads=2), ms("MultiHeadAttention", "q k", "z", num_heads=2)]
    inputs = {
        "p": (["b", "s", 2, 3, 4], "float32"), "q": (["b", "s", 8], "float32"), "k": (["b", "t", 2, 2, 4], "float32"),
    }  # fmt: skip
    packed, keys = array(2, 3, 2, 3, 4), array(2, 5, 2, 2, 4, seed=1)
    query = array(2, 3, 8, seed=2)

    def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        scores = np.einsum("bshd,bthd->bhst", q, k) / 2
        powers = np.exp(scores)
        return np.einsum("bhst,bthd->bshd", powers / powers.sum(-1, keepdims=True), v).reshape(2, 3, 8)

    results = Compiled(microsoft(nodes, inputs, "y z"))(p=packed, q=query, k=keys)
    first = expected(*(packed[:, :, :, i] for i in range(3)))
    second = expected(query.reshape(2, 3, 2, 4), keys[:, :, :, 0], keys[:, :, :, 1])
    assert_agrees(results, [first, second], ["y", "z"])


GROUPED = {
    "q": (["b", "s", 64], "float32"), "k": (["b", "s", 32], "float32"), "v": (["b", "s", 32], "float32"),
    "pk": (["b", 2, "p", 16], "float32"), "pv": (["b", 2, "p", 16], "float32"), "last": (["b"], "int32"),
    "total": ([], "int32"),
}  # fmt: skip


def grouped(b: int, s: int, p: int) -> dict[str, np.ndarray]:
    return {
        "q": array(b, s, 64), "k": array(b, s, 32, seed=1), "v": array(b, s, 32, seed=2),
        "pk": array(b, 2, p, 16, seed=3), "pv": array(b, 2, p, 16, seed=4), "last": np.full(b, p + s - 1, "int32"),
        "total": np.array(p + s, "int32"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ("", {}),
        ("co si", {"do_rotary": 1, "local_window_size": 2, "softcap": 3.0}),
        ("co si _ _ sink", {"do_rotary": 1, "rotary_interleaved": 1}),
        ("", {"smooth_softmax": 1, "scale": 0.2}),
    ],
)
def test_attention_with_a_cache(inputs: str, attributes: dict[str, Any]) -> None:
    names = f"q k v pk pv last total {inputs}"
    nodes = [ms("GroupQueryAttention", names, "y ck cv", num_heads=4, kv_num_heads=2, **attributes)]
    constants = {"co": array(20, 8), "si": array(20, 8, seed=1), "sink": array(4, seed=8)}
    used = {n: v for n, v in constants.items() if n in names.split()}
    feeds = [grouped(1, 1, 4), grouped(2, 1, 5), grouped(2, 4, 0), grouped(1, 2, 4)]
    check(microsoft(nodes, GROUPED, "y ck cv", used), *feeds)


def test_caches_filled_to_different_lengths() -> None:
    nodes = [ms("GroupQueryAttention", "q k v pk pv last total", "y ck cv", num_heads=4, kv_num_heads=2)]
    compiled = Compiled(microsoft(nodes, GROUPED, "y ck cv"))
    feed = grouped(2, 1, 5) | {"last": np.array([3, 5], "int32")}
    y, key, _ = compiled(**feed)
    assert key.shape == (2, 2, 6, 16)
    for b, last in enumerate(feed["last"]):
        past = [np.repeat(feed[n][b][:, :last], 2, 0) for n in ("pk", "pv")]
        new = [np.repeat(feed[n][b].reshape(1, 2, 16).swapaxes(0, 1), 2, 0) for n in "kv"]
        keys, values = (np.concatenate([p, n], 1) for p, n in zip(past, new, strict=True))
        powers = np.exp(np.einsum("hd,htd->ht", feed["q"][b].reshape(4, 16), keys) / 4)
        expected = np.einsum("ht,htd->hd", powers / powers.sum(1, keepdims=True), values)
        np.testing.assert_allclose(y[b].reshape(4, 16), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(VMKitError, match="seqlens_k is beyond the end of the cache"):
        compiled(**feed | {"last": np.array([3, 6], "int32")})


def test_rotary_embeddings() -> None:
    nodes = [
        ms("RotaryEmbedding", "x p co si", "a"), ms("RotaryEmbedding", "x p co si", "c", interleaved=1),
        ms("RotaryEmbedding", "x o co si", "d"), ms("RotaryEmbedding", "z p co si", "e"),
        ms("RotaryEmbedding", "x p cp sj", "f", num_heads=2, rotary_embedding_dim=4),
    ]  # fmt: skip
    inputs = {
        "x": (["b", "s", 16], "float32"), "z": (["b", 2, "s", 8], "float32"), "p": (["b", "s"], "int64"),
        "o": ([1], "int64"),
    }  # fmt: skip
    tables = {"co": array(10, 4), "si": array(10, 4, seed=1), "cp": array(10, 2), "sj": array(10, 2, seed=1)}
    feeds = [
        {"x": array(b, s, 16), "z": array(b, 2, s, 8), "p": np.arange(b * s).reshape(b, s), "o": np.array([2])}
        for b, s in ((1, 3), (2, 4))
    ]
    check(microsoft(nodes, inputs, "a c d e f", tables), *feeds)


def test_products() -> None:
    nodes = [
        ms("FusedMatMul", "a b", "d", transB=1, alpha=0.5), ms("FusedMatMul", "a b", "e", transA=1),
        ms("FusedMatMul", "a w", "f", alpha=2.0), ms("TransposeMatMul", "a u", "g", transB=1),
        ms("FusedMatMul", "a c", "h", transBatchA=1),
        ms("FusedGemm", "m w v", "i", activation="LeakyRelu", activation_alpha=0.3, alpha=0.5, beta=2.0),
        ms("FusedGemm", "m w v", "j", activation="HardSigmoid", activation_alpha=0.1, activation_beta=0.4),
    ]  # fmt: skip
    stacks = {n: (["n", 2, "s", 4], "float32") for n in "ab"}
    inputs = stacks | {"c": ([2, "s", 4, 5], "float32"), "m": (["n", 4], "float32")}
    feeds = [
        {"a": array(n, 2, s, 4), "b": array(n, 2, s, 4, seed=1), "c": array(2, s, 4, 5, seed=2), "m": array(n, 4)}
        for n, s in ((1, 3), (3, 2))
    ]
    check(microsoft(nodes, inputs, "d e f g h i j", {"w": array(4, 3), "u": array(3, 4), "v": array(3)}), *feeds)


def test_convolutions() -> None:
    nodes = [
        ms("FusedConv", "x w c", "d", activation="Relu", pads=[1, 1, 1, 1]),
        ms("FusedConv", "x w c z", "e", activation="Clip", activation_params=[0.0, 1.0], pads=[1, 1, 1, 1]),
        ms("FusedConv", "x w", "f", activation="LeakyRelu", activation_params=[0.2]),
        ms("ConvTransposeWithDynamicPads", "x t p", "g", strides=[2, 2]),
    ]
    constants = {"w": array(4, 3, 3, 3), "c": array(4), "t": array(3, 2, 3, 3), "p": np.array([1, 1, 1, 1])}
    inputs = {"x": (["n", 3, "h", 6], "float32"), "z": (["n", 4, "h", 6], "float32")}
    feeds = [{"x": array(n, 3, h, 6), "z": array(n, 4, h, 6, seed=1)} for n, h in ((1, 5), (2, 7))]
    check(microsoft(nodes, inputs, "d e f g", constants), *feeds)


def test_a_transposed_convolution_with_pads_from_an_input() -> None:
    nodes = [ms("ConvTransposeWithDynamicPads", "x t p b", "y", strides=[2, 2])]
    inputs = {"x": (["n", 3, "h", 6], "float32"), "p": ([4], "int64")}
    compiled = Compiled(microsoft(nodes, inputs, "y", {"t": array(3, 2, 3, 3), "b": array(2)}))
    for h, pads in ((5, [1, 0, 2, 1]), (4, [0, 0, 0, 0])):
        x = array(1, 3, h, 6)
        known = [node("ConvTranspose", "x t b", "y", strides=[2, 2], pads=pads)]
        plain = session(model(known, {"x": inputs["x"]}, "y", {"t": array(3, 2, 3, 3), "b": array(2)}))
        assert_agrees(compiled(x=x, p=np.array(pads)), plain.run(None, {"x": x}), ["y"])
    for pads in ([-1, 0, 0, 0], [9, 0, 9, 0]):
        with pytest.raises(VMError, match="Pads are negative, or cut off more than the whole result"):
            compiled(x=array(1, 3, 5, 6), p=np.array(pads))


def test_channels_last() -> None:
    last = [ms("NhwcFusedConv", "x w c", "y", activation="Relu", pads=[1, 1, 1, 1])]
    first = [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]), node("Conv", "t w c", "u", pads=[1, 1, 1, 1]),
        node("Relu", "u", "v"), node("Transpose", "v", "y", perm=[0, 2, 3, 1]),
    ]  # fmt: skip
    inputs, constants = {"x": (["n", "h", 6, 3], "float32")}, {"w": array(4, 3, 3, 3), "c": array(4)}
    x = array(2, 5, 6, 3)
    expected = Compiled(model(first, inputs, "y", constants))(x=x)
    assert_agrees(Compiled(microsoft(last, inputs, "y", constants))(x=x), expected, ["y"])


def test_tensors() -> None:
    nodes = [
        ms("GatherND", "x i", "a"), ms("ExpandDims", "x axis", "c"), ms("Unique", "u", "d e f"),
        ms("Trilu", "m k", "g", upper=0), ms("Pad", "x pads", "h"), ms("Inverse", "m", "j"),
        ms("CDist", "x o", "l", metric="euclidean"), ms("Range", "first end", "n"),
        ms("CropAndResize", "z r w size", "p"),
    ]  # fmt: skip
    inputs = {
        "x": (["n", 3], "float32"), "i": (["k", 2], "int64"), "u": (["l"], "float32"), "m": (["n", 4, 4], "float32"),
        "o": (["l", 3], "float32"), "end": ([], "float32"), "z": (["n", 2, "h", 7], "float32"),
        "r": (["k", 4], "float32"), "w": (["k"], "int32"),
    }  # fmt: skip
    constants = {
        "axis": np.array(1, "int32"), "k": np.array(1), "pads": np.array([0, 1, 2, 0]), "first": np.float32(1),
        "size": np.array([3, 4], "int32"),
    }  # fmt: skip
    feed = {
        "x": array(4, 3), "i": np.array([[0, 1], [3, 2]]), "u": np.array([2, 1, 1, 3, 4, 3], "float32"),
        "m": array(4, 4, 4), "o": array(6, 3, seed=3), "end": np.float32(5), "z": array(4, 2, 6, 7),
        "r": np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1.2, 1]], "float32"), "w": np.array([0, 3], "int32"),
    }  # fmt: skip
    integers = {"e": TensorProto.INT64, "f": TensorProto.INT64}
    proto = microsoft(nodes, inputs, "a c d e f g h j l n p", constants, integers)
    check(proto, {n: np.asarray(v) for n, v in feed.items()})


def test_what_onnxruntime_has_for_other_devices_only() -> None:
    nodes = [
        ms("BiasSoftmax", "x m", "a", axis=3, is_inner_broadcast=1), ms("BiasDropout", "x m x", "c"),
        ms("BiasSplitGelu", "x w", "d"), ms("BiasAdd", "x w x", "e"), ms("ComplexMul", "x x", "f"),
        ms("GroupNorm", "x w w", "g", groups=2, activation=1),
    ]  # fmt: skip
    inputs = {"x": (["b", "h", "s", 8], "float32"), "m": (["b", 1, 1, 8], "float32")}
    x, m, w = array(2, 2, 3, 8), array(2, 1, 1, 8, seed=1), array(8, seed=2)
    powers = np.exp(x + m)
    halves = np.split(x + w, 2, -1)
    pairs = x[..., :4] + 1j * x[..., 4:]
    groups = x.reshape(2, 2, 3, 2, 4)
    centred = groups - groups.mean((1, 2, 4), keepdims=True)
    normal = (centred / np.sqrt(groups.var((1, 2, 4), keepdims=True) + 1e-5)).reshape(x.shape) * w + w
    gelu = halves[1] * 0.5 * (1 + np.vectorize(erf)(halves[1] / np.sqrt(2)))
    expected = [
        powers / powers.sum(-1, keepdims=True), x + m + x, halves[0] * gelu, x + w + x,
        np.concatenate([(pairs * pairs).real, (pairs * pairs).imag], -1), normal / (1 + np.exp(-normal)),
    ]  # fmt: skip
    results = Compiled(microsoft(nodes, inputs, "a c d e f g", {"w": w}))(x=x, m=m)
    assert_agrees(results, [e.astype("float32") for e in expected], list("acdefg"))


def test_what_is_not_supported_says_so() -> None:
    def refused(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any]) -> str:
        with pytest.raises(ModelError) as caught:
            from_onnx(microsoft(nodes, inputs, "y", {"w": array(8, 24), "c": array(24)}))
        return str(caught.value)

    assert "do_rotary" in refused([ms("Attention", "x w", "y", num_heads=2, do_rotary=1)], X)
    assert "key and value are missing" in refused([ms("MultiHeadAttention", "q", "y", num_heads=2)], {
        "q": (["b", 2, "s", 4], "float32")
    })  # fmt: skip
    gemm = [ms("FusedGemm", "x w", "y", activation="Cosine")]
    assert "the activation 'Cosine' is not supported" in refused(gemm, {"x": (["n", 8], "float32")})
