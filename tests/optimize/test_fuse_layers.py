"""Attention and recurrent layers become one operator where that is all that they are, and keep their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

import vmkit
from tests.frontend.onnx.programs import array, check, model, node
from vmkit import optimize, relay
from vmkit.relay import nn, transform
from vmkit.relay.ir import Call, Op, post_order

b, m, n = (tirx.Var(name, "int64") for name in "bmn")
HEADS, INNER = 2, 16
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def attention(
    mask: Any = None,
    scale: Any = None,
    *,
    swapped: bool = False,
    axis: int = -1,
    factor: float = 1,
    nothing: Callable[[Any, Any], Any] | None = None,
) -> relay.Function:
    """Return attention over heads, as an exporter writes it.

    `factor` is what queries and keys are multiplied with each; `nothing` makes other weights of scores and a softmax.
    """
    q = relay.var("q", shape=(b, HEADS, m, INNER))
    k, v = (relay.var(name, shape=(b, n, HEADS, INNER)) for name in "kv")
    keys = relay.transpose(k, [0, 2, 3, 1])
    query = q
    if factor != 1:
        keys, query = relay.multiply(keys, relay.const(factor)), relay.multiply(relay.const(factor), q)
    products = nn.batch_matmul(
        relay.reshape(query, [b * HEADS, m, INNER], allowzero=True),
        relay.reshape(keys, [b * HEADS, INNER, n], allowzero=True),
        transpose_b=False,
    )
    scores = relay.reshape(products, [b, HEADS, m, n], allowzero=True)
    scores = scores if scale is None else scale(scores)
    scores = scores if mask is None else relay.add(mask, scores) if swapped else relay.add(scores, mask)
    softmax = nn.softmax(scores, axis=axis)
    softmax = softmax if nothing is None else nothing(scores, softmax)
    weights = relay.reshape(softmax, [b * HEADS, m, n], allowzero=True)
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


def zero_for_nan(_: Any, softmax: Any) -> Any:
    return relay.where(relay.isnan(softmax), relay.const(0.0), softmax)


def zero_for_nothing(scores: Any, softmax: Any, axis: int = -1) -> Any:
    most = relay.max(scores, axis=axis, keepdims=True)
    return relay.where(relay.equal(most, relay.const(-np.inf)), relay.const(0.0), softmax)


PROGRAMS = {
    "plain": lambda: attention(),
    "divided": lambda: attention(scale=lambda x: x / relay.const(4.0)),
    "scaled twice": lambda: attention(scale=lambda x: relay.const(2.0) * (x * relay.const(0.25))),
    "mask of columns": lambda: attention(relay.var("mask", shape=(b, 1, 1, n)), lambda x: x / relay.const(4.0)),
    "mask of rank 2": lambda: attention(relay.var("mask", shape=(m, n)), swapped=True),
    "scaled before the product": lambda: attention(factor=0.5, scale=lambda x: x * relay.const(0.5)),
    "zeros for what is not a number": lambda: attention(nothing=zero_for_nan),
    "zeros for what is left out": lambda: attention(nothing=zero_for_nothing),
}
OTHERS = {
    "softmax of another axis": lambda: attention(axis=2),
    "zeros where another axis is left out": lambda: attention(nothing=lambda x, y: zero_for_nothing(x, y, 1)),
    "ones for what is not a number": lambda: attention(
        nothing=lambda _, y: relay.where(relay.isnan(y), relay.const(1.0), y)
    ),
    "a factor that is no constant": lambda: attention(scale=lambda x: x * relay.exp(x)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_attention_is_fused_and_keeps_its_values(name: str) -> None:
    function = PROGRAMS[name]()
    assert "nn.contrib_attention" in operators(fused(function))
    compare(function)


def test_rows_that_the_mask_leaves_out_are_zeros_of_the_operator() -> None:
    mask = relay.var("mask", shape=(b, 1, m, n))
    rows = attention(mask)
    result = relay.reshape(rows.body, [b, HEADS, m, INNER], allowzero=True)

    def zeros_by(other: Any) -> relay.Function:
        most = relay.max(other, axis=-1, keepdims=True)
        zeros = relay.where(relay.equal(most, relay.const(-np.inf)), relay.const(0.0), result)
        return relay.Function(rows.params, zeros)

    function, other = zeros_by(mask), zeros_by(relay.exp(mask))
    assert "where" not in operators(fused(function))
    assert "where" in operators(fused(other))
    rng = np.random.default_rng(0)
    shapes = [(2, HEADS, 3, INNER), (2, 5, HEADS, INNER), (2, 5, HEADS, INNER), (2, 1, 3, 5)]
    inputs = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    inputs[-1][0, 0, 1] = -np.inf
    with tvm.transform.PassContext(opt_level=0):
        plain = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function})), "cpu")
    found = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function})), "cpu").run(*inputs).numpy()
    np.testing.assert_array_equal(found[0, :, 1], 0)
    np.testing.assert_allclose(found, plain.run(*inputs).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_attention_is_left(name: str) -> None:
    assert "nn.contrib_attention" not in operators(fused(OTHERS[name]()))


def test_a_factor_that_gives_an_axis_stays() -> None:
    q, k, v = relay.var("q", shape=(m, INNER)), *(relay.var(name, shape=(1, n, INNER)) for name in "kv")
    query = relay.multiply(q, relay.const(np.full((1, 1, 1), 0.5, "float32")))
    weights = nn.softmax(nn.batch_matmul(query, k, transpose_b=True))
    function = relay.Function([q, k, v], nn.batch_matmul(weights, v, transpose_b=False))
    assert "nn.contrib_attention" in operators(fused(function))
    compare(function)


def test_keys_that_a_transposition_made_are_taken_before_it() -> None:
    moves = [list(c.attrs.axes) for c in calls(fused(attention())) if c.op.name == "transpose"]
    assert moves == [[0, 2, 1, 3]] * 2


@pytest.mark.sweep
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_a_recurrent_layer_is_one_operator(kind: str, direction: str) -> None:
    assert kernels(layer(kind, direction)) == [f"nn.contrib_{kind.lower()}"] * (
        2 if direction == "bidirectional" else 1
    )
    check(layer(kind, direction), *[{"x": array(steps, batch, 3)} for steps, batch in ((1, 1), (5, 4), (20, 7))])


@pytest.mark.sweep
@pytest.mark.parametrize("steps", ["t", 12])
@pytest.mark.parametrize("kind", GATES)
def test_a_layer_over_rows_of_different_lengths_is_one_operator(kind: str, steps: Any) -> None:
    states = "h0 c0" if kind == "LSTM" else "h0"
    proto = layer(kind, "bidirectional", f"x w r b lengths {states}", steps, hidden=20)
    assert kernels(proto) == [f"nn.contrib_{kind.lower()}"] * 2
    feeds = []
    for batch, lengths in ((1, [5]), (3, [12, 7, 1]), (6, [3, 12, 1, 9, 9, 2])):
        given = {"x": array(12, batch, 3), "lengths": np.array(lengths, "int32")}
        feeds.append(given | {name: array(2, batch, 20, seed=5) for name in states.split()})
    check(proto, *feeds)


OPTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("RNN", "x w r b", {"activations": ["LeakyRelu"], "activation_alpha": [0.1]}),
    ("RNN", "x w r b", {"clip": 0.5}),
    ("GRU", "x w r", {"linear_before_reset": 1}),
    ("GRU", "x w r b", {"activations": ["HardSigmoid", "Softsign"], "hidden": 12}),
    ("GRU", "x w r b", {"clip": 0.5, "hidden": 3}),
    ("LSTM", "x w r b _ _ _ p", {}),
    ("LSTM", "x w r b _ _ _ p", {"clip": 0.5, "hidden": 1}),
    ("LSTM", "x w r b", {"input_forget": 1}),
    ("LSTM", "x w r b", {"activations": ["Sigmoid", "ScaledTanh", "Affine"], "activation_alpha": [0.7, 0.8],
                         "activation_beta": [0.9, 0.1]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "attributes"), OPTIONS)
def test_options_of_a_layer_are_those_of_the_operator(kind: str, inputs: str, attributes: dict[str, Any]) -> None:
    proto = layer(kind, "forward", inputs, **attributes)
    assert kernels(proto) == [f"nn.contrib_{kind.lower()}"]
    check(proto, *[{"x": array(steps, batch, 3)} for steps, batch in ((1, 1), (9, 5))])


@pytest.mark.parametrize(("kind", "functions"), [("RNN", ["Elu"]), ("GRU", ["Sigmoid", "Softplus"])])
def test_a_layer_with_a_function_that_has_no_kernel_stays_a_loop(kind: str, functions: list[str]) -> None:
    proto = layer(kind, "reverse", "x w r b lengths", activations=functions)
    assert kernels(proto) == []
    check(proto, {"x": array(9, 3, 3), "lengths": np.array([9, 1, 4], "int32")})


def test_a_length_that_lies_outside_counts_as_the_nearest_there_is() -> None:
    machine = vmkit.VirtualMachine(
        vmkit.compile(relay.frontend.from_onnx(layer("GRU", "reverse", "x w r b lengths"))[0])
    )
    x = array(5, 4, 3)
    outside, inside = (
        machine.run(x=x, lengths=np.array(lengths, "int32")) for lengths in ([-(2**31), 2**31 - 1, -1, 6], [0, 5, 0, 5])
    )
    for a, e in zip(outside, inside, strict=True):
        np.testing.assert_array_equal(a.numpy(), e.numpy())


def layer(
    kind: str, direction: str, inputs: str = "x w r b", steps: Any = "t", hidden: int = 16, **attributes: Any
) -> Any:
    """Return a model of one layer over three features."""
    count, gates = 2 if direction == "bidirectional" else 1, GATES[kind]
    weights = {
        "w": array(count, gates * hidden, 3),
        "r": array(count, gates * hidden, hidden) / 4,
        "b": array(count, 2 * gates * hidden),
        "p": array(count, 3 * hidden),
    }
    given = {"x": ([steps, "n", 3], "float32"), "lengths": (["n"], "int32")}
    given |= {name: ([count, "n", hidden], "float32") for name in ("h0", "c0")}
    names, outputs = inputs.split(), "y h c" if kind == "LSTM" else "y h"
    made = node(kind, inputs, outputs, hidden_size=hidden, direction=direction, **attributes)
    return model(
        [made],
        {name: given[name] for name in given if name in names},
        outputs,
        {name: weights[name] for name in weights if name in names},
    )


def kernels(proto: Any) -> list[str]:
    """Return the operators that recurrent layers have become."""
    mod, _ = relay.frontend.from_onnx(proto)
    result = optimize.FuseRecurrence(lanes=16)(transform.InferType()(mod))
    found = [call.op.name for call in calls(result["main"]) if call.op.name.startswith("nn.contrib_")]
    if found:
        assert [v.name_hint for v in result.get_global_vars()] == ["main"]
    return found


def fused(function: relay.Function) -> relay.Function:
    return optimize.FuseAttention(lanes=16)(transform.InferType()(tvm.IRModule({"main": function})))["main"]


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
