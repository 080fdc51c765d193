"""LSTMs whose weights are quantised, and whose inputs and states are where they meet them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.frontend.onnx.microsoft.models import ms
from tests.frontend.onnx.programs import Compiled, array, model
from vmkit import optimize, relay
from vmkit.errors import ModelError
from vmkit.relay import transform
from vmkit.relay.ir import Call, Op, post_order
from vmkit.target import canonical_target, host_supports
from vmkit.target.integer_unit import VECTORS, IntegerUnit

WIDTH, HIDDEN = 6, 8
# Steps one after another, this processor's own instructions for integers, and those of AVX2, which multiplies int16.
HASWELL = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
TARGETS = [target for target in ("llvm", "native", HASWELL) if not host_supports(canonical_target(target))]


def layer(
    directions: int,
    dtype: str,
    per_gate: bool,
    inputs: str = "x w r b _ _ _ _",
    hidden: int = HIDDEN,
    batch: int = 2,
    zero: int = 120,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one layer with random weights; `zero` is the zero point of uint8."""
    random = np.random.default_rng(directions)
    # int8 of seven bits: onnxruntime's sums of products of larger ones saturate on processors without VNNI.
    low, end, zero = (-64, 64, 0) if dtype == "int8" else (0, 255, zero)
    shape = (directions, 4 * hidden) if per_gate else (directions,)
    constants = {
        "w": random.integers(low, end, (directions, WIDTH, 4 * hidden)).astype(dtype),
        "r": random.integers(low, end, (directions, hidden, 4 * hidden)).astype(dtype),
        "b": array(directions, 8 * hidden), "p": array(directions, 3 * hidden), "lengths": np.int32([9, 4]),
        "h": array(directions, batch, hidden), "c": array(directions, batch, hidden, seed=1),
        "ws": random.uniform(0.001, 0.01, shape).astype("float32"), "wz": np.full(shape, zero, dtype),
        "rs": random.uniform(0.001, 0.01, shape).astype("float32"), "rz": np.full(shape, zero, dtype),
    }  # fmt: skip
    node = ms("DynamicQuantizeLSTM", f"{inputs} ws wz rs rz", "y last cell", hidden_size=hidden, **attributes)
    used = {name: value for name, value in constants.items() if name in node.input}
    proto = model([node], {"x": (["steps", batch, WIDTH], "float32")}, "y last cell", used)
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return proto


@pytest.mark.sweep
@pytest.mark.parametrize(
    "proto",
    [
        layer(1, "int8", False),
        layer(1, "uint8", False, "x w r _ _ _ _ _"),
        layer(1, "int8", True, direction="reverse"),
        layer(2, "uint8", True, direction="bidirectional"),
        layer(1, "int8", False, "x w r b _ h c p", clip=2.0),
        layer(2, "int8", True, hidden=32, direction="bidirectional"),
        layer(1, "uint8", False, hidden=20, batch=1, zero=128),
        layer(1, "int8", True, "x w r b _ h c p", hidden=19, batch=7, clip=2.0, input_forget=1, direction="reverse"),
        layer(1, "uint8", False, hidden=17),
    ],
    ids=[
        "signed",
        "unsigned",
        "reverse by gate",
        "both ways",
        "peepholes",
        "whole vectors",
        "a row",
        "seven rows",
        "more than a byte",
    ],
)
@pytest.mark.parametrize(("target", "frozen"), [*((target, True) for target in TARGETS), ("llvm", False)])
def test_a_layer_agrees_with_onnxruntime(proto: onnx.ModelProto, target: str, frozen: bool) -> None:
    compiled = Compiled(proto, target=target, freeze_params=frozen)
    options = onnxruntime.SessionOptions()
    # With more threads it takes the ranges of states of each sequence for itself.
    options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for steps in (1, 12):
        x = array(steps, _batch(proto), WIDTH, seed=steps)
        for actual, expected in zip(compiled(x=x), peer.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_a_step_of_many_products_is_shared_by_threads(target: str) -> None:
    proto = layer(1, "int8", False, "x w r b _ h c _", hidden=160, batch=16)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = array(2, 16, WIDTH)
    for actual, expected in zip(Compiled(proto, target=target)(x=x), peer.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_a_quantised_layer_is_one_operator_where_vectors_of_integers_are_multiplied() -> None:
    for unit in (VECTORS, IntegerUnit(16, 2, 32), IntegerUnit(8, 2, 16)):
        assert operators(layer(2, "int8", True, hidden=32, direction="bidirectional"), unit) == 2
        assert operators(layer(1, "uint8", False, hidden=20, zero=128), unit) == 1
    for proto, unit in (
        (layer(1, "int8", False, hidden=32), None),
        (layer(1, "int8", False, hidden=32), IntegerUnit(16, 4, 32, has_tiles=True)),
        (layer(1, "int8", False, hidden=15), VECTORS),
        (layer(1, "int8", False, "x w r b lengths _ _ _", hidden=32), VECTORS),
        (layer(1, "uint8", False, hidden=32, zero=120), VECTORS),  # weights less the zero point are more than a byte
    ):
        assert operators(proto, unit) == 0


def operators(proto: onnx.ModelProto, unit: IntegerUnit | None) -> int:
    """Return how many layers with a quantised recurrence a model has become, for a unit."""
    mod, _ = relay.frontend.from_onnx(proto)
    result = optimize.FuseRecurrence(lanes=16, unit=unit)(transform.InferType()(mod))
    calls = (e for e in post_order(result["main"]) if isinstance(e, Call) and isinstance(e.op, Op))
    return sum(call.op.name == "nn.contrib_quantized_lstm" for call in calls)


def _batch(proto: onnx.ModelProto) -> int:
    return int(proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value)


def test_a_hidden_size_that_is_another_is_refused() -> None:
    proto = layer(1, "int8", False)
    next(a for a in proto.graph.node[0].attribute if a.name == "hidden_size").i = 9
    with pytest.raises(ModelError, match="hidden_size is 9"):
        Compiled(proto)
