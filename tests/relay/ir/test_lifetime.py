"""Nodes that a compilation makes end with their last reference, and constants with them; others stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

import vmkit
from vmkit import relay
from vmkit._tvm.node_references import references_to
from vmkit.relay.ir.lifetime import end_unused_nodes, nodes_end
from vmkit.relay.ir.visit import children


def references(value: Any) -> int:
    """Return how many references to an object there are."""
    return references_to(value.__chandle__())


def kinds(data: relay.Constant) -> dict[str, Callable[[], Any]]:
    x = relay.var("x", shape=(4,))
    return {
        "tuple": lambda: relay.Tuple([data]),
        "field": lambda: relay.TupleGetItem(relay.Tuple([data, x]), 0),
        "call": lambda: relay.add(data, x),
        "attributes": lambda: relay.reshape(data, (2, 2)),
        "function": lambda: relay.Function([x], data),
        "let": lambda: relay.Let(x, data, x),
        "if": lambda: relay.If(relay.const(True), data, x),
        "module": lambda: tvm.IRModule({"main": relay.Function([x], data)}),
        "typed module": lambda: relay.transform.InferType()(tvm.IRModule({"main": relay.Function([x], data + data)})),
        "in place of a list": lambda: relay.Call(relay.Function([x], x), [data]),
    }


@pytest.mark.parametrize("kind", kinds(relay.const(0.0)))
def test_a_node_gives_back_what_it_holds(kind: str) -> None:
    data = relay.const(np.ones(4, "float32"))
    make = kinds(data)[kind]
    before = references(data)
    for _ in range(3):
        with nodes_end():
            made = make()
            assert references(data) > before
            del made
        assert references(data) == before


def test_a_constant_gives_back_its_tensor_and_a_type_its_sizes() -> None:
    tensor, shape = tvm.runtime.tensor(np.ones(4, "float32")), tvm_ffi.convert([2, 3])
    before = references(tensor), references(shape)
    with nodes_end():
        made = relay.Constant(tensor), relay.TensorType(shape, "float32")
        assert references(tensor) > before[0]
        del made
        assert end_unused_nodes() == 2
        assert (references(tensor), references(shape)) == before


def test_what_somebody_refers_to_stays() -> None:
    tensor = tvm.runtime.tensor(np.arange(4, dtype="float32"))
    with nodes_end():
        kept = relay.negative(relay.Constant(tensor))
        inner = relay.add(kept, kept)
        assert end_unused_nodes() == 0
        del inner
        assert end_unused_nodes() == 1
    assert isinstance(kept, relay.Call) and kept.op.name == "negative"
    np.testing.assert_array_equal(kept.args[0].data.numpy(), tensor.numpy())
    assert relay.transform.InferType()(tvm.IRModule({"main": relay.Function([], kept)}))["main"].ret_type is not None


def test_a_program_as_deep_as_can_be_ends_without_recursion() -> None:
    x = relay.var("x", shape=(4,))
    with nodes_end():
        value = x
        for _ in range(50_000):
            value = relay.Tuple([value])
        del value
        assert end_unused_nodes() >= 50_000


def test_a_failed_compilation_keeps_nothing() -> None:
    weight = tvm.runtime.tensor(np.ones((4, 4), "float32"))
    before = references(weight)
    x = relay.var("x", shape=(4, 4))
    text = relay.astext(tvm.IRModule({"main": relay.Function([x], relay.nn.dense(x, relay.Constant(weight)))}))
    held = references(weight)  # by the nodes above, which no compilation made
    assert held > before and "dense" in text
    for _ in range(2):
        with pytest.raises(vmkit.errors.VMKitError), nodes_end():
            relay.nn.dense(relay.Constant(weight), relay.Constant(weight))
            raise vmkit.errors.CompileError("broken off")
        assert references(weight) == held


def test_compiling_keeps_neither_weights_nor_what_was_made_of_them() -> None:
    weight = tvm.runtime.tensor(np.ones((4, 4), "float32"))
    x = relay.var("x", shape=(2, 4))
    w = relay.var("w", shape=(4, 4))
    function = relay.Function([x, w], relay.nn.dense(x, relay.multiply(w, w)))
    counts = []
    for _ in range(3):
        executable = vmkit.compile(function, "llvm", params={"w": weight})
        np.testing.assert_array_equal(vmkit.VirtualMachine(executable).run(np.ones((2, 4), "float32")).numpy(), 4)
        del executable
        counts.append(references(weight))
    assert counts == [counts[0]] * 3


def test_what_is_below_an_expression_is_kept_as_long_as_it_lasts() -> None:
    x = relay.var("x", shape=(4,))
    value = relay.negative(x)
    assert children(value) is not children(value)
    with nodes_end():
        below = children(value)
        assert children(value) is below and below[1].same_as(x)
        made = relay.tanh(relay.negative(value))
        before = references(value)
        assert children(made.args[0])[1].same_as(value) and children(made)[1].same_as(made.args[0])
        assert end_unused_nodes() == 0 and children(made) is children(made) and children(value) is below
        del made
        assert end_unused_nodes() == 2 and references(value) == before - 1
    assert children(value) is not children(value)
