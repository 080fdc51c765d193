"""Arithmetic, comparison, activations: tables of operators over inputs of unknown size, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.programs import array, check, model, node

MATRIX = {"x": (["n", 4], "float32")}
SIZES = (1, 3, 6)

OF_ONE_INPUT = {
    "any number": "Abs Asinh Atan Ceil Cos Cosh Erf Exp Floor Identity Neg Reciprocal Round Sigmoid Sign Sin Tan Tanh",
    "positive numbers": "Acosh Log Sinh Sqrt",
    "numbers below 1": "Acos Asin Atanh",
}
ACTIVATIONS = [
    node("Relu", "x", "relu"),
    node("LeakyRelu", "x", "leaky_relu", alpha=0.2),
    node("Elu", "x", "elu", alpha=1.5),
    node("Selu", "x", "selu"),
    node("Celu", "x", "celu", alpha=0.7),
    node("Softplus", "x", "softplus"),
    node("Softsign", "x", "softsign"),
    node("HardSigmoid", "x", "hard_sigmoid", alpha=0.3),
    node("HardSwish", "x", "hard_swish"),
    node("ThresholdedRelu", "x", "thresholded_relu", alpha=0.5),
    node("Softmax", "x", "softmax", axis=-1),
    node("Softmax", "x", "softmax_of_columns", axis=0),
    node("LogSoftmax", "x", "log_softmax"),
    node("Hardmax", "x", "hardmax"),
    node("Shrink", "x", "shrink", lambd=0.5, bias=0.1),
    node("PRelu", "x slope", "prelu"),
    node("Clip", "x low high", "clip"),
    node("Clip", "x _ high", "clip_from_above"),
]


def outputs_of(nodes: list) -> str:
    return " ".join(name for n in nodes for name in n.output)


@pytest.mark.parametrize("domain", OF_ONE_INPUT)
def test_functions_of_one_input(domain: str) -> None:
    nodes = [node(op, "x", op.lower()) for op in OF_ONE_INPUT[domain].split()]
    proto = model(nodes, MATRIX, outputs_of(nodes))
    change = {"any number": lambda x: x, "positive numbers": lambda x: 1 + abs(x), "numbers below 1": lambda x: x / 2.1}
    check(proto, *[{"x": change[domain](array(n, 4))} for n in SIZES])


def test_round_takes_halves_to_even() -> None:
    check(model([node("Round", "x", "y")], MATRIX, "y"), {"x": np.array([[-2.5, -1.5, -0.5, 0.5]], "float32")})


def test_activations() -> None:
    constants = {"slope": array(4), "low": np.float32(-1), "high": np.float32(0.5)}
    proto = model(ACTIVATIONS, MATRIX, outputs_of(ACTIVATIONS), constants)
    check(proto, *[{"x": array(n, 4)} for n in SIZES])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    check(model([node("Gelu", "x", "y", approximate=approximate)], MATRIX, "y", opset=20), {"x": array(3, 4)})


def test_softmax_before_opset_13_is_of_the_flattened_matrix() -> None:
    nodes = [node("Softmax", "x", "a"), node("LogSoftmax", "x", "b", axis=0), node("Hardmax", "x", "c", axis=1)]
    proto = model(nodes, {"x": (["n", 2, 3], "float32")}, "a b c", opset=11)
    check(proto, {"x": array(1, 2, 3)}, {"x": array(4, 2, 3)})


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


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8", "bool"])
def test_casts(dtype: str) -> None:
    from onnx import helper

    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [node("Cast", "x", "y", to=code), node("Cast", "y", "z", to=1)]
    check(model(nodes, MATRIX, "y z"), {"x": np.array([[0, 1.5, 3, 100]], "float32")})


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
    from tests.frontend.onnx.programs import Compiled

    x, y = array(2, 3, 2), array(3)
    (z,) = Compiled(proto)(x=x, y=y)
    np.testing.assert_allclose(z, x + y[:, None], rtol=1e-6)


def test_clip_by_attributes_before_opset_11() -> None:
    check(model([node("Clip", "x", "y", min=-1.0, max=0.5)], MATRIX, "y", opset=9), {"x": array(3, 4)})


def test_dropout_keeps_the_input() -> None:
    nodes = [node("Dropout", "x", "y mask")]
    check(model(nodes, MATRIX, "y mask", opset=13), {"x": array(2, 4)})
