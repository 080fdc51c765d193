"""Attention and recurrent layers become one operator where that is all that they are, and keep their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx_programs import array, check, model, node
from tvm import tirx

import vmkit
from vmkit import relay
from vmkit.relay import nn, transform
from vmkit.relay.ir import Call, Op, post_order

b, m, n = (tirx.Var(name, "int64") for name in "bmn")
HEADS, INNER = 2, 16


def attention(mask: Any = None, scale: Any = None, *, swapped: bool = False, axis: int = -1) -> relay.Function:
    """Return attention over heads, as an exporter writes it."""
    q = relay.var("q", shape=(b, HEADS, m, INNER))
    k, v = (relay.var(name, shape=(b, n, HEADS, INNER)) for name in "kv")
    keys = relay.transpose(k, [0, 2, 3, 1])
    products = nn.batch_matmul(
        relay.reshape(q, [b * HEADS, m, INNER], allowzero=True),
        relay.reshape(keys, [b * HEADS, INNER, n], allowzero=True),
        transpose_b=False,
    )
    scores = relay.reshape(products, [b, HEADS, m, n], allowzero=True)
    scores = scores if scale is None else scale(scores)
    scores = scores if mask is None else relay.add(mask, scores) if swapped else relay.add(scores, mask)
    weights = relay.reshape(nn.softmax(scores, axis=axis), [b * HEADS, m, n], allowzero=True)
    values = relay.reshape(relay.transpose(v, [0, 2, 1, 3]), [b * HEADS, n, INNER], allowzero=True)
    free = [] if mask is None else [mask]
    return relay.Function([q, k, v, *free], nn.batch_matmul(weights, values, transpose_b=False))


def step() -> relay.Function:
    """Return attention to keys that grow by one, which an importer transposes twice."""
    q, k, v = (relay.var(name, shape=(b, HEADS, size, INNER)) for name, size in (("q", 1), ("k", n), ("v", n)))
    keys, values = (relay.concatenate([each, q], axis=2) for each in (k, v))
    columns = relay.reshape(relay.transpose(keys, [0, 1, 3, 2]), [b * HEADS, INNER, n + 1], allowzero=True)
    row = relay.reshape(q, [b * HEADS, 1, INNER], allowzero=True)
    products = nn.batch_matmul(row, relay.transpose(columns, [0, 2, 1]), transpose_b=True)
    weights = nn.softmax(relay.reshape(products, [b, HEADS, 1, n + 1], allowzero=True))
    weights = relay.reshape(weights, [b * HEADS, 1, n + 1], allowzero=True)
    rows = relay.reshape(values, [b * HEADS, n + 1, INNER], allowzero=True)
    return relay.Function([q, k, v], nn.batch_matmul(weights, rows, transpose_b=False))


def test_keys_that_are_transposed_twice_are_read_as_they_are() -> None:
    names = operators(fused(step()))
    assert "nn.contrib_attention" in names
    assert "transpose" not in names


PROGRAMS = {
    "plain": lambda: attention(),
    "divided": lambda: attention(scale=lambda x: x / relay.const(4.0)),
    "scaled twice": lambda: attention(scale=lambda x: relay.const(2.0) * (x * relay.const(0.25))),
    "mask of columns": lambda: attention(relay.var("mask", shape=(b, 1, 1, n)), lambda x: x / relay.const(4.0)),
    "mask of rank 2": lambda: attention(relay.var("mask", shape=(m, n)), swapped=True),
}
OTHERS = {
    "softmax of another axis": lambda: attention(axis=2),
    "a factor that is no constant": lambda: attention(scale=lambda x: x * relay.exp(x)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_attention_is_fused_and_keeps_its_values(name: str) -> None:
    function = PROGRAMS[name]()
    assert "nn.contrib_attention" in operators(fused(function))
    compare(function)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_attention_is_left(name: str) -> None:
    assert "nn.contrib_attention" not in operators(fused(OTHERS[name]()))


def test_keys_that_a_transposition_made_are_taken_before_it() -> None:
    moves = [list(c.attrs.axes) for c in calls(fused(attention())) if c.op.name == "transpose"]
    assert moves == [[0, 2, 1, 3]] * 2


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_an_lstm_over_vectors_is_one_operator(direction: str) -> None:
    proto = lstm(direction)
    mod, _params = relay.frontend.from_onnx(proto)
    result = transform.FuseRecurrence(lanes=16)(transform.InferType()(mod))
    assert [v.name_hint for v in result.get_global_vars()] == ["main"]
    assert "nn.contrib_lstm" in operators(result["main"])
    check(proto, *[{"x": array(steps, batch, 3)} for steps, batch in ((1, 1), (5, 4), (20, 7))])


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("is_linear", [False, True])
def test_a_gru_over_vectors_is_one_operator(direction: str, is_linear: bool) -> None:
    proto = gru(direction, linear_before_reset=int(is_linear))
    mod, _params = relay.frontend.from_onnx(proto)
    result = transform.FuseRecurrence(lanes=16)(transform.InferType()(mod))
    assert [v.name_hint for v in result.get_global_vars()] == ["main"]
    assert "nn.contrib_gru" in operators(result["main"])
    check(proto, *[{"x": array(steps, batch, 3)} for steps, batch in ((1, 1), (5, 4), (20, 7))])


@pytest.mark.parametrize("attributes", [{"activations": ["Sigmoid", "Relu"]}, {"clip": 1.0}, {"hidden": 12}])
def test_a_gru_of_another_kind_stays_a_loop(attributes: dict[str, Any]) -> None:
    mod, _ = relay.frontend.from_onnx(gru("forward", **attributes))
    result = transform.FuseRecurrence(lanes=16)(transform.InferType()(mod))
    assert "nn.contrib_gru" not in operators(result["main"])


def test_an_lstm_with_other_activations_stays_a_loop() -> None:
    proto = lstm("forward", activations=["Sigmoid", "Relu", "Tanh"])
    mod, _ = relay.frontend.from_onnx(proto)
    result = transform.FuseRecurrence(lanes=16)(transform.InferType()(mod))
    assert "nn.contrib_lstm" not in operators(result["main"])


def lstm(direction: str, hidden: int = 16, **attributes: Any) -> Any:
    count = 2 if direction == "bidirectional" else 1
    weights = {
        "w": array(count, 4 * hidden, 3),
        "r": array(count, 4 * hidden, hidden) / 4,
        "b": array(count, 8 * hidden),
    }
    layer = node("LSTM", "x w r b", "y h c", hidden_size=hidden, direction=direction, **attributes)
    return model([layer], {"x": (["t", "n", 3], "float32")}, "y h c", weights)


def gru(direction: str, hidden: int = 16, **attributes: Any) -> Any:
    count = 2 if direction == "bidirectional" else 1
    weights = {
        "w": array(count, 3 * hidden, 3),
        "r": array(count, 3 * hidden, hidden) / 4,
        "b": array(count, 6 * hidden),
    }
    layer = node("GRU", "x w r b", "y h", hidden_size=hidden, direction=direction, **attributes)
    return model([layer], {"x": (["t", "n", 3], "float32")}, "y h", weights)


def fused(function: relay.Function) -> relay.Function:
    return transform.FuseAttention(lanes=16)(transform.InferType()(tvm.IRModule({"main": function})))["main"]


def calls(function: relay.Function) -> list[Call]:
    return [e for e in post_order(function) if isinstance(e, Call) and isinstance(e.op, Op)]


def operators(function: relay.Function) -> set[str]:
    return {call.op.name for call in calls(function)}


def compare(function: relay.Function) -> None:
    """Run a program as the compiler optimises it and as it is."""
    mod = tvm.IRModule({"main": function})
    with tvm.transform.PassContext(opt_level=0):
        plain = vmkit.VirtualMachine(vmkit.compile(mod), "cpu")
    machine = vmkit.VirtualMachine(vmkit.compile(mod), "cpu")
    rng = np.random.default_rng(0)
    for sizes in ({b: 1, m: 1, n: 1}, {b: 2, m: 9, n: 40}):
        shapes = [[sizes.get(d, d) for d in p.type_annotation.shape] for p in function.params]
        inputs = [rng.standard_normal(shape).astype("float32") for shape in shapes]
        np.testing.assert_allclose(machine.run(*inputs).numpy(), plain.run(*inputs).numpy(), rtol=1e-5, atol=1e-6)
