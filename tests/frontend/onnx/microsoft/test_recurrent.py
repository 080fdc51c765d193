"""LSTMs whose weights are quantised, and whose inputs and states are where they meet them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.frontend.onnx.microsoft.models import ms
from tests.frontend.onnx.programs import Compiled, array, model
from vmkit.errors import ModelError

WIDTH, HIDDEN = 6, 8


def layer(
    directions: int, dtype: str, per_gate: bool, inputs: str = "x w r b _ _ _ _", **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one layer with random weights."""
    random = np.random.default_rng(directions)
    # int8 of seven bits: onnxruntime's sums of products of larger ones saturate on processors without VNNI.
    low, end, zero = (-64, 64, 0) if dtype == "int8" else (0, 255, 120)
    shape = (directions, 4 * HIDDEN) if per_gate else (directions,)
    constants = {
        "w": random.integers(low, end, (directions, WIDTH, 4 * HIDDEN)).astype(dtype),
        "r": random.integers(low, end, (directions, HIDDEN, 4 * HIDDEN)).astype(dtype),
        "b": array(directions, 8 * HIDDEN), "p": array(directions, 3 * HIDDEN), "lengths": np.int32([9, 4]),
        "h": array(directions, 2, HIDDEN), "c": array(directions, 2, HIDDEN, seed=1),
        "ws": random.uniform(0.001, 0.01, shape).astype("float32"), "wz": np.full(shape, zero, dtype),
        "rs": random.uniform(0.001, 0.01, shape).astype("float32"), "rz": np.full(shape, zero, dtype),
    }  # fmt: skip
    node = ms("DynamicQuantizeLSTM", f"{inputs} ws wz rs rz", "y last cell", hidden_size=HIDDEN, **attributes)
    used = {name: value for name, value in constants.items() if name in node.input}
    proto = model([node], {"x": (["steps", 2, WIDTH], "float32")}, "y last cell", used)
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return proto


@pytest.mark.parametrize(
    "proto",
    [
        layer(1, "int8", False),
        layer(1, "uint8", False, "x w r _ _ _ _ _"),
        layer(1, "int8", True, direction="reverse"),
        layer(2, "uint8", True, direction="bidirectional"),
        layer(1, "int8", False, "x w r b _ h c p", clip=2.0),
    ],
    ids=["signed", "unsigned", "reverse by gate", "both ways", "peepholes"],
)
@pytest.mark.parametrize("frozen", [True, False])
def test_a_layer_agrees_with_onnxruntime(proto: onnx.ModelProto, frozen: bool) -> None:
    compiled = Compiled(proto, freeze_params=frozen)
    options = onnxruntime.SessionOptions()
    # With more threads it takes the ranges of states of each sequence for itself.
    options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for steps in (1, 12):
        x = array(steps, 2, WIDTH, seed=steps)
        for actual, expected in zip(compiled(x=x), peer.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_a_hidden_size_that_is_another_is_refused() -> None:
    proto = layer(1, "int8", False)
    next(a for a in proto.graph.node[0].attribute if a.name == "hidden_size").i = 9
    with pytest.raises(ModelError, match="hidden_size is 9"):
        Compiled(proto)
