"""Operators in another data type, between casts."""

from __future__ import annotations

import pytest
import tvm
import tvm_ffi

from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.transform import recast

X, W = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(4, 4, 3, 3))


def conv(data: relay.Expr, weight: relay.Expr, out_dtype: str = "") -> relay.Expr:
    return relay.nn.conv2d(data, weight, padding=(1, 1), out_dtype=out_dtype)


def small(data: relay.Expr, weight: relay.Expr) -> relay.Expr:
    """Return a convolution in 8 bits between casts."""
    return relay.cast(conv(relay.cast(data, "int8"), relay.cast(weight, "int8"), "int32"), "float32")


def function(body: relay.Expr) -> relay.Function:
    return relay.Function([X, W], body)


@pytest.mark.parametrize(
    ("skipped", "expected"),
    [([], small(small(X, W), W)), ([0], small(conv(X, W), W)), ([-1], conv(small(X, W), W))],
)
def test_operands_and_results_are_cast(skipped: list[int], expected: relay.Expr) -> None:
    before = function(conv(conv(X, W), W))
    assert tvm_ffi.structural_equal(recast(before, "int8", "int32", skip_layers=skipped), function(expected))
    assert before.ret_type is None


def test_fields_of_a_tuple_are_cast() -> None:
    joined = relay.concatenate([X, X], axis=1)
    halves = relay.concatenate([relay.cast(X, "float16"), relay.cast(X, "float16")], axis=1)
    got = recast(function(joined), "float16", "float16", ops=["concatenate"])
    assert tvm_ffi.structural_equal(got, function(relay.cast(halves, "float32")))


def test_of_a_module_main_is_changed() -> None:
    mod = recast(tvm.IRModule({"main": function(conv(X, W))}), "int8", "int32")
    assert mod["main"].checked_type.ret_type.dtype == "float32"
    assert mod["main"].body.args[0].checked_type.dtype == "int32"


def test_an_operator_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeCheckError, match=r"there is no operator 'nn\.conv2' in Relay; did you mean"):
        recast(function(conv(X, W)), "int8", "int32", ops=["nn.conv2"])
