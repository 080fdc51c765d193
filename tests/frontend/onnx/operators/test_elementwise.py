"""Arithmetic and comparison: tables of operators over inputs of unknown size, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.feeds import MATRIX, SIZES
from tests.frontend.onnx.programs import (
    Compiled,
    array,
    assert_agrees,
    check,
    model,
    node,
    outputs_of,
    results_of,
)

OF_ONE_INPUT = {
    "any number": "Abs Asinh Atan Ceil Cos Cosh Erf Exp Floor Identity Neg Reciprocal Round Sigmoid Sign Sin Tan Tanh",
    "positive numbers": "Acosh Log Sinh Sqrt",
    "numbers below 1": "Acos Asin Atanh",
}


@pytest.mark.parametrize("domain", OF_ONE_INPUT)
def test_functions_of_one_input(domain: str) -> None:
    nodes = [node(op, "x", op.lower()) for op in OF_ONE_INPUT[domain].split()]
    proto = model(nodes, MATRIX, outputs_of(nodes))
    change = {"any number": lambda x: x, "positive numbers": lambda x: 1 + abs(x), "numbers below 1": lambda x: x / 2.1}
    check(proto, *[{"x": change[domain](array(n, 4))} for n in SIZES])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_round_takes_halves_to_even(dtype: str) -> None:
    proto = model([node("Round", "x", "y")], {"x": (["n", 4], dtype)}, "y")
    halves = np.array([[-2.5, -1.5, -0.5, 0.5], [1.5, 2.5, np.nextafter(0.5, 0, dtype=dtype), 1000.5]], dtype)
    check(proto, {"x": halves}, {"x": np.array([[-0.0, np.inf, -np.inf, np.nan]], dtype)})


def test_binary_operators_broadcast() -> None:
    nodes = [
        node(op, "x y", op.lower())
        for op in ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum", "Greater", "LessOrEqual"]
    ]
    inputs = {"x": (["n", 1, 4], "float32"), "y": (["m", 1], "float32")}
    proto = model(nodes, inputs, outputs_of(nodes))
    check(proto, *[{"x": abs(array(n, 1, 4)), "y": array(m, 1, seed=1)} for n, m in ((1, 1), (2, 3), (5, 1))])


def test_two_named_sizes_broadcast_when_one_of_them_is_1() -> None:
    inputs = {"x": (["n", 3], "float32"), "y": (["m", 3], "float32")}
    proto = model([node("Mul", "x y", "z")], inputs, "z")
    check(proto, *[{"x": array(n, 3), "y": array(m, 3, seed=1)} for n, m in ((4, 4), (1, 3), (3, 1))])


def test_integers_divide_towards_zero() -> None:
    nodes = [node("Div", "x y", "quotient"), node("Mod", "x y", "floor_rest"), node("Mod", "x y", "rest", fmod=1)]
    inputs = {"x": (["n"], "int64"), "y": (["n"], "int64")}
    feed = {"x": np.array([7, -7, 7, -7]), "y": np.array([2, 2, -2, -2])}
    (quotient, floor_rest, rest) = check(model(nodes, inputs, "quotient floor_rest rest"), feed)(**feed)
    assert quotient.tolist() == [3, -3, -3, 3]
    assert floor_rest.tolist() == [1, 1, -1, -1]
    assert rest.tolist() == [1, -1, 1, -1]


def test_logic_and_comparison_of_bool() -> None:
    nodes = [node(op, "x y", op.lower()) for op in ["And", "Or", "Xor", "Equal"]] + [node("Not", "x", "not")]
    inputs = {"x": (["n", 2], "bool"), "y": ([2], "bool")}
    proto = model(nodes, inputs, outputs_of(nodes))
    check(proto, {"x": np.array([[True, False], [False, False]]), "y": np.array([True, False])})


def test_bits() -> None:
    nodes = [
        node("BitShift", "x y", "left", direction="LEFT"),
        node("BitShift", "x y", "right", direction="RIGHT"),
        node("BitwiseAnd", "x y", "and"),
        node("BitwiseXor", "x y", "xor"),
        node("BitwiseNot", "x", "not"),
    ]
    inputs = {"x": (["n"], "uint8"), "y": (["n"], "uint8")}
    check(
        model(nodes, inputs, outputs_of(nodes), opset=18),
        {"x": np.array([1, 200, 7], "uint8"), "y": np.array([1, 3, 2], "uint8")},
    )


def test_where_and_tests_of_numbers() -> None:
    nodes = [
        node("Where", "c x y", "where"),
        node("IsNaN", "x", "is_nan"),
        node("IsInf", "x", "is_inf"),
        node("IsInf", "x", "is_negative_inf", detect_positive=0),
    ]
    inputs = {"c": (["n", 1], "bool"), "x": ([1, "m"], "float32"), "y": ([], "float32")}
    feed = {
        "c": np.array([[True], [False]]),
        "x": np.array([[1, np.inf, -np.inf, np.nan]], "float32"),
        "y": np.array(7, "float32"),
    }
    check(model(nodes, inputs, outputs_of(nodes)), feed)


def test_powers_by_constants_and_of_integers() -> None:
    nodes = [node("Pow", "x two", "square"), node("Pow", "x half", "root"), node("Pow", "i three", "cube")]
    nodes.append(node("Pow", "x three", "volume"))
    constants = {"two": np.float32(2), "half": np.float32(0.5), "three": np.int32(3)}
    inputs = {"x": (["n"], "float32"), "i": (["n"], "int32")}
    proto = model(nodes, inputs, "square root cube", constants)
    check(proto, {"x": np.array([0.5, 2, 9], "float32"), "i": np.array([-2, 0, 5], "int32")})


def test_broadcast_at_an_axis_before_opset_7() -> None:
    proto = model(
        [node("Add", "x y", "z", broadcast=1, axis=1)],
        {"x": (["n", 3, 2], "float32"), "y": ([3], "float32")},
        "z",
        opset=6,
    )
    x, y = array(2, 3, 2), array(3)
    (z,) = Compiled(proto)(x=x, y=y)
    np.testing.assert_allclose(z, x + y[:, None], rtol=1e-6)


def test_clip_by_attributes_before_opset_11() -> None:
    check(model([node("Clip", "x", "y", min=-1.0, max=0.5)], MATRIX, "y", opset=9), {"x": array(3, 4)})


def test_bits_shifted_out_are_gone() -> None:
    inputs = {"x": ([4], "uint8"), "by": ([4], "uint8")}
    nodes = [node("BitShift", "x by", "a", direction="LEFT"), node("BitShift", "x by", "b", direction="RIGHT")]
    compiled = Compiled(model(nodes, inputs, "a b", opset=11))
    x, by = np.array([255, 1, 128, 7], "uint8"), np.array([8, 7, 200, 1], "uint8")
    expected = [np.array([0, 128, 0, 14], "uint8"), np.array([0, 0, 0, 3], "uint8")]
    assert_agrees(compiled(x=x, by=by), expected, ["a", "b"])


def test_a_shift_by_all_bits_or_backwards_leaves_the_sign() -> None:
    nodes = [node("BitShift", "x by", way.lower(), direction=way) for way in ("LEFT", "RIGHT")]
    x, by = np.int8([-5, 5, -5, 5, -1, 64]), np.int8([8, 100, -1, -1, 1, 1])
    left, right = results_of(nodes, x=x, by=by)
    assert left.tolist() == [0, 0, 0, 0, -2, -128]
    assert right.tolist() == [-1, 0, -1, 0, -1, 32]
    left, right = results_of(nodes, x=np.uint64([1 << 63, 3, 3]), by=np.uint64([63, 64, 1]))
    assert (left.tolist(), right.tolist()) == ([0, 0, 6], [1, 0, 1])
