"""Relay's nodes are members of TVM's IR: compared, saved, hashed and passed through its infrastructure."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi

from vmkit import relay
from vmkit.relay.ir import dims, free_vars, is_call, post_order, rewrite


def doubled(name: str, factor: float = 2.0) -> tvm.IRModule:
    x = relay.var(name, shape=(relay.Any(), 4))
    return tvm.IRModule({"main": relay.Function([x], relay.multiply(x, relay.const(factor)))})


def test_equality_ignores_names_and_sees_constants() -> None:
    assert tvm_ffi.structural_equal(doubled("x"), doubled("y"))
    assert not tvm_ffi.structural_equal(doubled("x"), doubled("x", 3.0))
    assert tvm_ffi.structural_hash(doubled("x")) == tvm_ffi.structural_hash(doubled("y"))


def test_json_of_tvm_keeps_a_module() -> None:
    mod = doubled("x")
    assert tvm_ffi.structural_equal(mod, tvm.ir.load_json(tvm.ir.save_json(mod)))


def test_operators_of_python_build_calls() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    names = [e.op.name for e in (x + y, x - y, x * y, x / y, -x, x < y, x > y, x <= y, x >= y)]
    assert names == [
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "less",
        "greater",
        "less_equal",
        "greater_equal",
    ]
    with pytest.raises(TypeError, match=r'convert "1" with `relay.const` first'):
        x + 1


def test_a_call_is_known_by_the_name_of_its_operator() -> None:
    x = relay.var("x", shape=(2,))
    assert is_call(x + x, "subtract", "add") and is_call(relay.abs(x), "abs")
    local = relay.Function([x], x)
    assert not any(is_call(e, "add") for e in (x, x - x, relay.const(1), local, local(x), (x + x).op, None))
    assert not is_call(x + x)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"),
        (1.5, None, "float32"),
        (True, None, "bool"),
        ([1, 2], None, "int32"),
        (np.arange(3), None, "int64"),
        (np.float16(2), None, "float16"),
        (1, "uint8", "uint8"),
    ],
)
def test_constants_have_relays_types(value: object, dtype: str | None, expected: str) -> None:
    constant = relay.const(value, dtype)
    assert constant.checked_type.dtype == expected
    np.testing.assert_array_equal(constant.data.numpy(), np.asarray(value))


def test_any_number_is_a_truth_value() -> None:
    assert [bool(relay.const(n, "bool").data.numpy()) for n in (2, 0, 256)] == [True, False, True]


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(TypeError, match="the value 300 does not fit uint8"):
        relay.const(300, "uint8")
    with pytest.raises((TypeError, OverflowError)):
        relay.const(2**40, "int32")


@pytest.mark.parametrize("value", [5, "five", np.zeros(2)])
def test_a_constant_of_strings_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="data type 'string' not understood"):
        relay.const(value, "string")


def test_a_negative_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a dimension of a tensor type is -1; write relay.Any\(\)"):
        relay.TensorType((-1, 2))


def test_types_print_as_relay_text() -> None:
    n = tvm.tirx.Var("n", "int64")
    tensor = relay.TensorType((relay.Any(), n, dims.add(dims.mul(n, 2), 1), 3), "int8")
    assert str(tensor) == "Tensor[(?, n, n * 2 + 1, 3), int8]"
    assert str(relay.FuncType([tensor, relay.scalar_type("bool")], relay.TupleType([]))) == f"fn ({tensor}, bool) -> ()"


def test_an_unbound_type_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="the type checker has not populated"):
        _ = relay.var("x", shape=(1,)).checked_type


def test_post_order_visits_shared_parts_once() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    visited = list(post_order(relay.add(shared, shared)))
    assert sum(node.same_as(shared) for node in visited) == 1
    assert visited[-1].op.name == "add"


def test_a_deep_expression_is_walked_without_recursion() -> None:
    x = relay.var("x", shape=(2,))
    expr = x
    for _ in range(3_000):
        expr = relay.exp(expr)
    assert sum(isinstance(node, relay.Call) for node in post_order(expr)) == 3_000


def test_rewrite_keeps_sharing_and_what_does_not_change() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    kept = relay.exp(y)
    shared = relay.exp(x)
    result = rewrite(relay.Tuple([shared, shared, kept]), {x: relay.const(np.ones(2, "float32"))})
    assert result[0].same_as(result[1]) and result[2].same_as(kept)
    assert isinstance(result[0].args[0], relay.Constant)


def test_free_variables_are_those_that_nothing_binds() -> None:
    x, y, z = (relay.var(name, shape=(2,)) for name in "xyz")
    expr = relay.Let(y, relay.exp(x), relay.Function([z], relay.add(y, z)))
    assert [v.name_hint for v in free_vars(expr)] == ["x"]


@pytest.mark.parametrize("dtype", [np.float16, np.dtype("float16"), tvm.DataType("float16"), "float16"])
def test_data_types_are_given_by_name_or_as_numpy_or_tvm_have_them(dtype: object) -> None:
    assert relay.var("x", shape=(2,), dtype=dtype).type_annotation.dtype == "float16"
    assert relay.const(1, dtype).data.dtype == "float16"


def test_uint1_is_bool_as_in_relay() -> None:
    condition, x = relay.var("c", shape=(), dtype="uint1"), relay.var("x", shape=(2,))
    assert str(condition.type_annotation) == str(relay.scalar_type("bool"))
    assert relay.cast(x, "uint1").attrs.dtype == "bool" and relay.cast(x, "float").attrs.dtype == "float32"
    assert relay.const(1, "uint1").checked_type.dtype == "bool"
    mod = relay.transform.InferType()(tvm.IRModule({"main": relay.Function([condition, x], relay.If(condition, x, x))}))
    assert str(mod["main"].checked_type.ret_type) == "Tensor[(2), float32]"
