"""Transposes, changes of layout and reshapes that undo each other are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.relay import nn, transform
from vmkit.relay.ir import Call, Constant, Op, post_order

MOVES = {"transpose", "layout_transform", "reshape"}
X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("float32")


def n(name: str) -> tvm.tirx.Var:
    return tvm.tirx.Var(name, "int64")


def moves(mod: tvm.IRModule) -> list[str]:
    calls = [e for e in post_order(mod["main"].body) if isinstance(e, Call) and isinstance(e.op, Op)]
    return [call.op.name for call in calls if call.op.name in MOVES and not isinstance(call.args[0], Constant)]


ROWS = {
    "in place": (lambda x: relay.transpose(x, [0, 1, 2, 3]), []),
    "there and back": (lambda x: relay.layout_transform(relay.transpose(x, [0, 2, 3, 1]), "NHWC", "NCHW"), []),
    "one of two": (lambda x: relay.layout_transform(relay.transpose(x, [1, 0, 2, 3]), "NCHW", "NHWC"), ["transpose"]),
    "same shape": (lambda x: relay.reshape(x, [0, 0, 0, -1]), []),
    "another shape": (lambda x: relay.reshape(x, [0, -1]), ["reshape"]),
    "into blocks": (lambda x: relay.layout_transform(x, "NCHW", "NCHW1c"), ["layout_transform"]),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("is_free", [False, True])
def test_moves_in_a_row_are_one_or_none(name: str, is_free: bool) -> None:
    move, left = ROWS[name]
    shape = [n("a"), n("b"), n("c"), n("d")] if is_free else X.shape
    x = relay.var("x", shape=shape)
    mod = transform.InferType()(tvm.IRModule({"main": relay.Function([x], relay.exp(move(relay.tanh(x))))}))
    made = optimize.JoinMoves()(mod)
    assert moves(made) == left
    run = [vmkit.VirtualMachine(vmkit.compile(each), "cpu").run(X).numpy() for each in (mod, made)]
    np.testing.assert_array_equal(run[0], run[1])


def test_a_reshape_of_what_may_have_any_shape_stays() -> None:
    x = relay.var("x", shape=(relay.Any(), 3))
    mod = tvm.IRModule({"main": relay.Function([x], relay.reshape(x, [2, -1]))})
    assert moves(optimize.JoinMoves()(transform.InferType()(mod))) == ["reshape"]


def test_a_network_that_transposes_for_some_operators_keeps_one_layout() -> None:
    """As TensorFlow's are exported: channels come first for convolutions, last for what the exporter left as it was."""
    x = relay.var("x", shape=(n("b"), 3, n("h"), n("w")))
    y: Any = x
    for at in range(2):
        weight = relay.const(np.random.default_rng(at).standard_normal((3, 3, 1, 1)).astype("float32"))
        y = nn.conv2d(y, weight, kernel_size=(1, 1), channels=3)
        last = relay.transpose(y, [0, 2, 3, 1])
        cube = relay.transpose(last * last * last, [0, 3, 1, 2])
        y = y * (relay.const(np.ones((1, 1, 1, 1), "float32")) + relay.tanh(y + cube))
    mod = transform.InferType()(tvm.IRModule({"main": relay.Function([x], y)}))
    made = optimize.JoinMoves()(transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod))
    assert moves(made) == ["layout_transform", "layout_transform"]  # in and out
