"""Attention whose state is a matrix, and the convolution in front of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, check
from vmkit.errors import ModelError

ATTRIBUTES = {"q_num_heads": 2, "kv_num_heads": 2}
INPUTS: dict[str, Any] = {
    "q": (["b", "t", 8], "float32"), "k": (["b", "t", 8], "float32"), "v": (["b", "t", 6], "float32"),
    "s": (["b", 2, 4, 3], "float32"), "g": (["b", "t", 2], "float32"), "e": (["b", "t", 8], "float32"),
    "r": (["b", "t", 2], "float32"), "p": (["b", "t", 16], "float32"), "o": (["b", "t", 4], "float32"),
}  # fmt: skip


def feed(b: int, t: int) -> dict[str, np.ndarray]:
    made = {n: array(b, t, s[-1], seed=i) / 2 for i, (n, (s, _)) in enumerate(INPUTS.items()) if n != "s"}
    made |= {n: -np.abs(made[n]) for n in "ge"} | {"r": np.abs(made["r"]) / 2}
    return made | {"s": array(b, 2, 4, 3, seed=20)}


def test_every_rule() -> None:
    nodes = [
        ms("LinearAttention", "q k v s g r", "a sa", **ATTRIBUTES),
        ms("LinearAttention", "q k v s e r", "c sc", scale=0.7, **ATTRIBUTES),
        ms("LinearAttention", "q k v", "d sd", update_rule="linear", **ATTRIBUTES),
        ms("LinearAttention", "q k v s g", "f sf", update_rule="gated", **ATTRIBUTES),
        ms("LinearAttention", "q k v s _ r", "h sh", update_rule="delta", **ATTRIBUTES),
        ms("LinearAttention", "p k v s g r", "i si", q_num_heads=4, kv_num_heads=2),
        ms("LinearAttention", "o k v s g r", "j sj", q_num_heads=1, kv_num_heads=2),
    ]
    outputs = " ".join(name for n in nodes for name in n.output)
    check(microsoft(nodes, INPUTS, outputs), feed(1, 1), feed(2, 5))


def test_convolution_of_what_was_before() -> None:
    nodes = [
        ms("CausalConvWithState", "x w", "a sa"), ms("CausalConvWithState", "x w b p", "c sc", activation="silu"),
        ms("CausalConvWithState", "y w b", "d sd", channels_last=1, dilation=2, activation="swish"),
    ]  # fmt: skip
    inputs = {"x": (["n", 4, "t"], "float32"), "y": (["n", "t", 4], "float32"), "p": (["n", 4, 2], "float32")}
    feeds = [{"x": array(n, 4, t), "y": array(n, t, 4), "p": array(n, 4, 2, seed=3)} for n, t in ((1, 1), (2, 6))]
    check(microsoft(nodes, inputs, "a sa c sc d sd", {"w": array(4, 1, 3), "b": array(4)}), *feeds)


def test_what_the_convolution_has_on_gpus_alone_is_refused() -> None:
    inputs = {"x": (["n", "t", 4], "float32")}
    said = {"state_length": 0, "input_channels": 0, "state_channels_last": -1}  # as exporters write what they leave
    node = ms("CausalConvWithState", "x w", "a sa", channels_last=1, **said)
    check(microsoft([node], inputs, "a sa", {"w": array(4, 1, 3)}), {"x": array(2, 5, 4)})
    node = ms("CausalConvWithState", "x w", "a sa", channels_last=1, state_length=4)
    with pytest.raises(ModelError, match="which onnxruntime has on CUDA alone"):
        Compiled(microsoft([node], inputs, "a sa", {"w": array(4, 1, 3)}))


def test_rules_that_lack_an_input_are_refused() -> None:
    proto = microsoft([ms("LinearAttention", "q k v s", "a sa", update_rule="gated", **ATTRIBUTES)], INPUTS, "a sa")
    with pytest.raises(ModelError, match="update_rule 'gated' needs decay"):
        Compiled(proto)
