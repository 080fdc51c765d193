"""Operators with a state that a model carries from call to call."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.feeds import four
from tests.frontend.onnx.programs import (
    Compiled,
    agrees_with_reference,
    array,
    model,
    node,
)
from vmkit.errors import VMError, VMKitError


def test_an_update_outside_of_a_cache_is_an_error() -> None:
    inputs = {"c": (["n", 5, 2], "float32"), "u": (["n", "k", 2], "float32"), "at": (["n"], "int64")}
    nodes = [
        node("TensorScatter", "c u at", "a", axis=1),
        node("TensorScatter", "c u at", "b", axis=1, mode="circular"),
    ]
    compiled = agrees_with_reference(
        model(nodes, inputs, "a b", opset=24), {"c": array(2, 5, 2), "u": array(2, 2, 2), "at": np.array([3, 0])}
    )
    with pytest.raises(VMError, match="an update does not lie inside the cache"):
        compiled(c=array(2, 5, 2), u=array(2, 2, 2), at=np.array([4, 0]))


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule: str) -> None:
    names = f"q k v st {'g' if 'gated' in rule else '_'} {'r' if 'delta' in rule else ''}"
    nodes = [node("LinearAttention", names, "y z", q_num_heads=4, kv_num_heads=2, update_rule=rule)]
    inputs = {
        "q": (["b", "t", 16], "float32"), "k": (["b", "t", 8], "float32"), "v": (["b", "t", 6], "float32"),
        "st": (["b", 2, 4, 3], "float32"), "g": (["b", "t", 2], "float32"), "r": (["b", "t", 1], "float32"),
    }  # fmt: skip
    used = {n: v for n, v in inputs.items() if n in names.split()}
    feeds = []
    for b, t in ((1, 1), (2, 4)):
        sizes = {"b": b, "t": t}
        shapes = {n: [sizes.get(d, d) for d in s] for n, (s, _) in used.items()}
        feeds.append({n: array(*s, seed=i) / 2 for i, (n, s) in enumerate(shapes.items())})
    agrees_with_reference(model(nodes, used, "y z", opset=27), *feeds)


def test_convolutions_with_a_state() -> None:
    nodes = [
        node("CausalConvWithState", "x w c p", "a d", activation="silu"),
        node("CausalConvWithState", "x w", "e f"),
    ]
    inputs = {"x": (["b", 3, "t"], "float32"), "p": (["b", 3, 3], "float32")}
    feeds = [{"x": array(b, 3, t), "p": array(b, 3, 3, seed=1)} for b, t in ((1, 1), (2, 6))]
    agrees_with_reference(
        model(nodes, inputs, "a d e f", {"w": array(3, 1, 4), "c": array(3, seed=1)}, opset=27), *feeds
    )


CACHE = {"x": (["b", 2, "m", 3], "float32"), "u": (["b", 2, "n", 3], "float32"), "i": (["b"], "int64")}


def test_updates_of_caches() -> None:
    nodes = [
        node("TensorScatter", "x u i", "a", mode="circular"), node("TensorScatter", "x u", "c"),
        node("TensorScatter", "x u j", "d", axis=2),
    ]  # fmt: skip
    feeds = [
        {"x": four(b, 2, m, 3, 0), "u": four(b, 2, n, 3, 1), "i": np.arange(b) + m - 1, "j": np.arange(b)}
        for b, m, n in ((1, 4, 2), (2, 5, 3))
    ]
    agrees_with_reference(model(nodes, CACHE | {"j": (["b"], "int64")}, "a c d", opset=24), *feeds)


def test_an_update_beyond_the_end_of_a_cache_is_refused() -> None:
    compiled = Compiled(model([node("TensorScatter", "x u i", "y")], CACHE, "y", opset=24))
    feed = {"x": four(2, 2, 4, 3, 0), "u": four(2, 2, 2, 3, 1)}
    for starts in ([0, 3], [-1, 0]):
        with pytest.raises(VMKitError, match="does not lie inside the cache"):
            compiled(**feed, i=np.array(starts))
