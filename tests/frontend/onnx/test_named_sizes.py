"""Operators that compute with sizes, given tensors whose sizes only the run knows: reshaped to what inputs say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx.microsoft.models import ms
from tests.frontend.onnx.programs import Compiled, agrees_with_reference, array, assert_agrees, model, node, session
from vmkit.errors import VMError

Feed = Mapping[str, np.ndarray]


def reshaped(nodes: Sequence[onnx.NodeProto], feed: Feed, outputs: str, opset: int) -> onnx.ModelProto:
    """Return a model whose nodes see each input `x` under the shape that the input `x_shape` says."""
    inputs: dict[str, Any] = {}
    before = []
    for name, value in feed.items():
        inputs[f"{name}_flat"] = ([f"{name}_count"], value.dtype)
        inputs[f"{name}_shape"] = ([value.ndim], "int64")
        before.append(node("Reshape", f"{name}_flat {name}_shape", name, **({"allowzero": 1} if opset > 13 else {})))
    proto = model([*before, *nodes], inputs, outputs, opset=opset)
    if any(n.domain for n in nodes):
        proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return proto


def flat(feed: Feed) -> dict[str, np.ndarray]:
    """Return what such a model is given for inputs."""
    both = {f"{n}_flat": v.reshape(-1) for n, v in feed.items()}
    return both | {f"{n}_shape": np.array(v.shape) for n, v in feed.items()}


def agrees_with_session(nodes: Sequence[onnx.NodeProto], outputs: str, feeds: Sequence[Feed]) -> Compiled:
    proto = reshaped(nodes, feeds[0], outputs, 17)
    compiled, peer = Compiled(proto), session(proto)
    for feed in feeds:
        assert_agrees(compiled(**flat(feed)), peer.run(None, flat(feed)), outputs.split())
    return compiled


def test_rotary_embeddings() -> None:
    nodes = [
        node("RotaryEmbedding", "x c s p", "a", num_heads=2, interleaved=1),
        node("RotaryEmbedding", "z c s p", "d"),
        node("RotaryEmbedding", "z e f", "g", rotary_embedding_dim=4),
    ]

    def feed(b: int, n: int, half: int) -> dict[str, np.ndarray]:
        return {
            "x": array(b, n, 4 * half), "z": array(b, 2, n, 2 * half), "p": np.arange(b * n).reshape(b, n),
            "c": array(10, half), "s": array(10, half, seed=1),
            "e": array(b, n, 2, seed=2), "f": array(b, n, 2, seed=3),
        }  # fmt: skip

    feeds = [feed(1, 3, 4), feed(2, 5, 2)]
    compiled = agrees_with_reference(reshaped(nodes, feeds[0], "a d g", 23), *map(flat, feeds))
    with pytest.raises(VMError, match="elements cannot be turned in pairs"):
        compiled(**flat(feeds[0] | {"z": array(1, 2, 3, 7), "x": array(1, 3, 14)}))


def test_rotary_embeddings_of_onnxruntime() -> None:
    nodes = [
        ms("RotaryEmbedding", "x p c s", "a", num_heads=2),
        ms("RotaryEmbedding", "x p c s", "b", interleaved=1),
        ms("RotaryEmbedding", "z p c s", "d"),
    ]

    def feed(b: int, n: int, half: int) -> dict[str, np.ndarray]:
        return {
            "x": array(b, n, 4 * half), "z": array(b, 2, n, 2 * half), "p": np.arange(b * n).reshape(b, n),
            "c": array(10, half), "s": array(10, half, seed=1),
        }  # fmt: skip

    agrees_with_session(nodes, "a b d", [feed(1, 3, 4), feed(2, 5, 2)])


@pytest.mark.parametrize("rule", ["linear", "gated_delta"])
def test_linear_attention(rule: str) -> None:
    names = f"q k v st {'g' if 'gated' in rule else '_'} {'r' if 'delta' in rule else ''}"
    kinds = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}

    def feed(b: int, t: int, inner: int, width: int) -> dict[str, np.ndarray]:
        shapes = {
            "q": (b, t, 4 * inner), "k": (b, t, 2 * inner), "v": (b, t, 2 * width), "st": (b, 2, inner, width),
            "g": (b, t, 2), "r": (b, t, 1),
        }  # fmt: skip
        used = {n: s for n, s in shapes.items() if n in names.split()}
        return {n: array(*s, seed=i) / 2 for i, (n, s) in enumerate(used.items())}

    feeds = [feed(1, 1, 4, 3), feed(2, 4, 2, 5)]
    compiled = agrees_with_reference(
        reshaped([node("LinearAttention", names, "y z", **kinds)], feeds[0], "y z", 27), *map(flat, feeds)
    )
    with pytest.raises(VMError, match="reshape: the new shape holds 8 elements, the input 6"):
        compiled(**flat(feeds[0] | {"k": array(1, 1, 6)}))


def test_linear_attention_of_onnxruntime() -> None:
    nodes = [
        ms("LinearAttention", "q k v st g r", "y z", q_num_heads=4, kv_num_heads=2),
        ms("LinearAttention", "o k v st g r", "u w", q_num_heads=1, kv_num_heads=2),
    ]

    def feed(b: int, t: int, inner: int, width: int) -> dict[str, np.ndarray]:
        shapes = {
            "q": (b, t, 4 * inner), "o": (b, t, inner), "k": (b, t, 2 * inner), "v": (b, t, 2 * width),
            "st": (b, 2, inner, width), "g": (b, t, 2), "r": (b, t, 2),
        }  # fmt: skip
        made = {n: array(*s, seed=i) / 2 for i, (n, s) in enumerate(shapes.items())}
        return made | {"g": -np.abs(made["g"]), "r": np.abs(made["r"]) / 2}

    agrees_with_session(nodes, "y z u w", [feed(1, 1, 4, 3), feed(2, 4, 2, 5)])


def test_convolutions_with_a_state() -> None:
    nodes = [
        node("CausalConvWithState", "x w c p", "a d", activation="silu"),
        node("CausalConvWithState", "x w", "e f"),
    ]

    def feed(b: int, channels: int, t: int, kernel: int) -> dict[str, np.ndarray]:
        return {
            "x": array(b, channels, t), "p": array(b, channels, kernel - 1, seed=1),
            "w": array(channels, 1, kernel, seed=2), "c": array(channels, seed=3),
        }  # fmt: skip

    feeds = [feed(1, 3, 1, 4), feed(2, 5, 6, 2), feed(1, 2, 4, 1)]
    compiled = agrees_with_reference(reshaped(nodes, feeds[0], "a d e f", 27), *map(flat, feeds))
    with pytest.raises(VMError, match="dimension 0 is 1, expected 3"):
        compiled(**flat(feeds[0] | {"w": array(1, 1, 4)}))
    nodes = [ms("CausalConvWithState", "x w c p", "a d", activation="silu")]
    agrees_with_session(nodes, "a d", feeds[:2])


def test_maxima_are_written_back() -> None:
    nodes = [
        node("MaxUnpool", "x at", "a", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", "x at larger", "b", kernel_shape=[2, 2], strides=[2, 2]),
    ]

    def feed(n: int, channels: int, h: int, w: int) -> dict[str, np.ndarray]:
        count = n * channels * h * w
        at = np.sort(np.random.default_rng(0).permutation(4 * count)[:count]).reshape(n, channels, h, w)
        larger = np.array([n, channels, 2 * h + 1, 2 * w + 2])
        return {"x": array(n, channels, h, w), "at": at, "larger": larger}

    feeds = [feed(2, 2, 2, 3), feed(1, 3, 4, 1)]
    compiled = agrees_with_reference(reshaped(nodes, feeds[0], "a b", 11), *map(flat, feeds))
    for at in (np.full((2, 2, 2, 3), 96), np.full((2, 2, 2, 3), -97)):
        with pytest.raises(VMError, match="an index lies outside of axis 0"):
            compiled(**flat(feeds[0] | {"at": at}))
    with pytest.raises(VMError, match="dimension 3 is 2, expected 3"):
        compiled(**flat(feeds[0] | {"at": feeds[0]["at"][:, :, :, :2]}))
