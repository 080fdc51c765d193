"""Legalize: other calls in the place of operators' calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.transform.attaching import attached_to
from tests.relay.transform.passes import after, assert_becomes
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.transform import Legalize


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


X, Y = v("x", 4, 8), v("y", 16, 8)


def test_without_attached_functions_nothing_changes():
    before = relay.nn.relu(relay.nn.dense(X, Y))
    assert_becomes(Legalize(), before, before, X, Y)


def test_a_call_takes_the_place_of_each_operand_first():
    def clipped(attrs: Any, inputs: Any, types: Any) -> Any:
        return relay.clip(inputs[0], 0.0, 9.0)

    with attached_to("nn.relu", "FTVMLegalize", clipped):
        expected = relay.clip(relay.nn.dense(relay.clip(X, 0.0, 9.0), Y), 0.0, 9.0)
        assert_becomes(Legalize(), relay.nn.relu(relay.nn.dense(relay.nn.relu(X), Y)), expected, X, Y)


def test_a_function_sees_the_types_of_inputs_and_result():
    seen = []

    def none(attrs: Any, inputs: Any, types: Any) -> None:
        seen.append(list(types))

    before = relay.nn.dense(X, Y)
    with attached_to("nn.dense", "FTVMLegalize", none):
        assert_becomes(Legalize(), before, before, X, Y)
    assert seen == [[relay.TensorType(shape) for shape in ((4, 8), (16, 8), (4, 16))]]


def test_the_result_may_have_another_data_type_inside():
    def in_float64(attrs: Any, inputs: Any, types: Any) -> Any:
        return relay.cast(relay.sqrt(relay.cast(inputs[0], "float64")), types[-1].dtype)

    with attached_to("sqrt", "FTVMLegalize", in_float64):
        expected = relay.exp(relay.cast(relay.sqrt(relay.cast(X, "float64")), "float32"))
        assert_becomes(Legalize(), relay.exp(relay.sqrt(X)), expected, X)


def test_another_key():
    with attached_to("nn.relu", "FMyLegalize", lambda attrs, inputs, types: relay.abs(inputs[0])):
        assert_becomes(Legalize(), relay.nn.relu(X), relay.nn.relu(X), X)
        assert_becomes(Legalize("FMyLegalize"), relay.nn.relu(X), relay.abs(X), X)


def test_functions_of_the_module_are_legalized_by_themselves():
    inner = relay.Function([X], relay.nn.relu(X))
    with attached_to("nn.relu", "FTVMLegalize", lambda attrs, inputs, types: relay.abs(inputs[0])):
        assert_becomes(Legalize(), relay.Call(inner, [X]), relay.Call(relay.Function([X], relay.abs(X)), [X]), X)


def test_only_a_call_takes_the_place_of_a_call():
    with (
        attached_to("nn.relu", "FTVMLegalize", lambda attrs, inputs, types: inputs[0]),
        pytest.raises(ModelError, match=r"FTVMLegalize of nn\.relu: only a call can take the place of a call"),
    ):
        after(Legalize(), relay.nn.relu(X), X)
