"""Weights: what counts as one, and binding them to parameters by name."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tvm

from vmkit import relay
from vmkit.errors import InputError
from vmkit.relay.params import as_tensors, bind_params


def module() -> tvm.IRModule:
    """Return ``main(x, w, b) = x * w + b``."""
    x, w, b = relay.var("x", shape=(relay.Any(), 4)), relay.var("w", shape=(4,)), relay.var("b", shape=(relay.Any(),))
    return tvm.IRModule({"main": relay.Function([x, w, b], relay.add(relay.multiply(x, w), b))})


def names(mod: tvm.IRModule) -> list[str]:
    return [parameter.name_hint for parameter in mod["main"].params]


def test_bound_parameters_become_constants() -> None:
    bound = bind_params(module(), {"w": np.full(4, 2.5, "float32")})
    assert names(bound) == ["x", "b"]
    assert "%w" not in relay.astext(bound)


def test_the_module_given_is_not_changed() -> None:
    mod = module()
    bind_params(mod, {"w": np.ones(4, "float32")})
    assert names(mod) == ["x", "w", "b"]


@pytest.mark.parametrize("extent", [1, 4])
def test_an_unknown_dimension_takes_any_extent(extent: int) -> None:
    assert names(bind_params(module(), {"b": np.ones(extent, "float32")})) == ["x", "w"]


def test_every_array_that_does_not_fit_is_listed() -> None:
    with pytest.raises(InputError) as caught:
        bind_params(module(), {"w": np.ones(3, "float32"), "b": np.ones((2, 2)), "x": np.ones((1, 4), "float32")})
    assert str(caught.value) == (
        "2 of the params do not match @main\n"
        "  w: Tensor[(3), float32], expected Tensor[(4), float32]\n"
        "  b: Tensor[(2, 2), float64], expected Tensor[(?), float32]"
    )


def test_names_that_bind_nothing_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert names(bind_params(module(), {"weight": np.ones(4, "float32"), "v": 1.0})) == ["x", "w", "b"]
    assert caplog.messages == ["params that @main has no parameter for are not used: v, weight"]


def test_a_name_of_two_parameters_cannot_be_bound() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("x", shape=(2,))
    mod = tvm.IRModule({"main": relay.Function([x, y], relay.add(x, y))})
    with pytest.raises(InputError, match="Multiple args in the function have name x"):
        bind_params(mod, {"x": np.ones(2, "float32")})


def test_numbers_arrays_and_tensors_are_weights() -> None:
    tensors = as_tensors({"a": 2.5, "b": np.arange(3), "c": tvm.runtime.tensor(np.zeros(1, "int8")), "d": [True]})
    assert {name: (tuple(t.shape), str(t.dtype)) for name, t in tensors.items()} == {
        "a": ((), "float32"),
        "b": ((3,), "int64"),
        "c": ((1,), "int8"),
        "d": ((1,), "bool"),
    }


def test_every_value_that_is_no_weight_is_listed() -> None:
    with pytest.raises(InputError) as caught:
        as_tensors({"a": "abc", "b": 1.0, "c": None})
    first, *rest = str(caught.value).splitlines()
    assert first == "2 of the params cannot be used"
    assert [line.split(" is no tensor: ")[0] for line in rest] == ["  a: a str", "  c: None"]


def test_weights_come_by_name() -> None:
    with pytest.raises(InputError, match="params map names to arrays, got a list"):
        as_tensors([1.0])  # type: ignore[arg-type]
