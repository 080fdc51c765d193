"""What goes into and comes out of the functions that another compiler is to take."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from vmkit import relay
from vmkit.errors import InputError, ModelError

VECTOR = relay.TensorType((3,), "float32")


def _module(calls: int = 1) -> tuple[tvm.IRModule, relay.GlobalVar]:
    gvar = relay.GlobalVar("outside")
    a, b = relay.Var("a", VECTOR), relay.Var("b", VECTOR)
    results = relay.Tuple([relay.add(a, b), relay.multiply(a, b)])
    outside = relay.Function([a, b], results, relay.TupleType([VECTOR, VECTOR]), attrs={"Compiler": "other"})
    x = relay.Var("x", VECTOR)
    value = x
    for _ in range(calls):
        value = relay.TupleGetItem(relay.Call(gvar, [relay.exp(value), x]), 1)
    return tvm.IRModule({gvar: outside, "main": relay.Function([x], value)}), gvar


def test_arguments_and_results_are_of_one_run() -> None:
    mod, gvar = _module()
    x = np.array([0.0, 1.0, 2.0], "float32")
    found = relay.analysis.get_calibration_data(mod, {"x": x})[gvar]
    first, second = (each.numpy() for each in found["inputs"])
    np.testing.assert_allclose(first, np.exp(x), rtol=1e-5)
    np.testing.assert_array_equal(second, x)
    np.testing.assert_allclose(found["outputs"][0].numpy(), first + x, rtol=1e-6)
    np.testing.assert_allclose(found["outputs"][1].numpy(), first * x, rtol=1e-6)


def test_what_lacks_data_is_named() -> None:
    with pytest.raises(InputError, match="there is no data for x"):
        relay.analysis.get_calibration_data(_module()[0], {"y": 1.0})


def test_a_function_that_is_called_twice_is_refused() -> None:
    with pytest.raises(ModelError, match="@outside is called 2 times"):
        relay.analysis.get_calibration_data(_module(calls=2)[0], {"x": np.zeros(3, "float32")})
