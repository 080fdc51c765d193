"""The causal convolution of requests of several lengths, the tokens of which lie one behind the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.microsoft.ragged import LENGTHS, ends_of
from tests.frontend.onnx.programs import Compiled, array, check, outputs_of, session
from vmkit.errors import ModelError

INPUTS: dict[str, Any] = {
    "x": (["n", 4], "float32"), "e": (["r"], "int32"), "s": (["b", 4, 2], "float32"), "t": (["b", 4, 4], "float32"),
    "c": (["b"], "int32"),
}  # fmt: skip
WEIGHTS = {"w": array(4, 1, 3), "b": array(4, seed=9)}


def feed(lengths: tuple[int, ...]) -> dict[str, np.ndarray]:
    count = len(lengths)
    return {
        "x": array(sum(lengths), 4), "e": ends_of(lengths), "s": array(count, 4, 2, seed=1),
        "t": array(count, 4, 4, seed=2), "c": np.arange(1, count + 1).astype("int32"),
    }  # fmt: skip


def test_every_attribute_and_input() -> None:
    kept: dict[str, Any] = {"activation": "silu", "state_update_capacity": 3}
    nodes = [
        ms("VarlenCausalConvWithState", "x w e _ s", "a sa"),
        ms("VarlenCausalConvWithState", "x w e b s c", "d sd ud", **kept),
        ms("VarlenCausalConvWithState", "x w e b t", "f sf", activation="swish", dilation=2),
    ]
    check(microsoft(nodes, INPUTS, outputs_of(nodes), WEIGHTS), *map(feed, LENGTHS))


def test_a_kernel_of_one_step_has_no_state() -> None:
    nodes = [ms("VarlenCausalConvWithState", "x w e b s", "a sa")]
    inputs = {n: INPUTS[n] for n in "xe"} | {"s": (["b", 4, 0], "float32")}
    proto = microsoft(nodes, inputs, "a sa", {"w": array(4, 1, 1), "b": array(4, seed=9)})
    given = {"x": array(5, 4), "e": ends_of((2, 3)), "s": np.zeros((2, 4, 0), "float32")}
    actual = Compiled(proto)(**given)
    np.testing.assert_allclose(actual[0], given["x"] * array(4, 1, 1)[:, 0, 0] + array(4, seed=9), rtol=1e-5)
    assert actual[1].shape == (2, 4, 0)


def test_float16_is_computed_in_float32() -> None:
    proto = microsoft([ms("VarlenCausalConvWithState", "x k e _ s", "a sa", activation="silu")], INPUTS, "a sa", {})
    proto.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHTS["w"].astype("float16"), "k"))
    for value in [*proto.graph.input, *proto.graph.output]:
        if value.name in ("x", "s", "a", "sa"):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    given = {n: v.astype("float16") if n in "xs" else v for n, v in feed(LENGTHS[1]).items()}
    for actual, expected in zip(Compiled(proto)(**given), session(proto).run(None, given), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-3)


def test_what_cannot_be_is_refused() -> None:
    def refused(inputs: str, **attributes: Any) -> str:
        with pytest.raises(ModelError) as caught:
            Compiled(microsoft([ms("VarlenCausalConvWithState", inputs, "y sy", **attributes)], INPUTS, "y", WEIGHTS))
        return str(caught.value)

    assert "write the two taps as products and a sum" in refused("x w e _ s _ x x")
    assert "activation is 'relu', none, silu or swish" in refused("x w e _ s", activation="relu")
    assert "state_update_capacity is 9; it is 0 to 8" in refused("x w e _ s", state_update_capacity=9)
