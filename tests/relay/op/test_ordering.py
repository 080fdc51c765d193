"""What operators make of NaN: numpy's values, and onnxruntime's for models of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import vmkit
from vmkit import relay

NAN, INF = math.nan, math.inf
X = np.array([[1, NAN, 3, -INF], [INF, 2, NAN, 0]], "float32")
Y = np.array([[NAN, 1, NAN, 2], [NAN, INF, -INF, NAN]], "float32")


def run(program: relay.Function | onnx.ModelProto, *arrays: np.ndarray) -> list[np.ndarray]:
    result = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1).run(*arrays)
    return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]


def of_one(body: Callable[[relay.Var], relay.Expr], *, dtype: str = "float32", wide: int = 1) -> np.ndarray:
    array = np.tile(X, (1, wide)).astype(dtype)
    x = relay.var("x", shape=array.shape, dtype=dtype)
    return run(relay.Function([x], body(x)), array)[0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (relay.nn.relu, lambda x: np.maximum(x, 0)),
        (lambda x: relay.clip(x, 0.0, 2.0), lambda x: np.clip(x, 0, 2)),
        (lambda x: relay.clip(x, -INF, 2.0), lambda x: np.minimum(x, 2)),
        (relay.sign, np.sign),
        (lambda x: relay.sort(x, axis=1), lambda x: np.sort(x, 1)),
        (lambda x: relay.argsort(x, axis=1), lambda x: np.argsort(x, 1, kind="stable")),
        (lambda x: relay.argwhere(x), lambda x: np.argwhere(x)),
        (lambda x: relay.cast(x, "bool"), lambda x: x.astype("bool")),
        (lambda x: relay.max(x, axis=1), lambda x: np.nanmax(x, 1)),
        (lambda x: relay.min(x, axis=0), lambda x: np.nanmin(x, 0)),
        (lambda x: relay.argmax(x, axis=1), lambda x: np.nanargmax(x, 1)),
        (lambda x: relay.argmin(x, axis=0), lambda x: np.nanargmin(x, 0)),
        (lambda x: relay.argmax(x), np.nanargmax),
    ],
)
def test_an_input_with_nan(body: Callable[..., relay.Expr], expected: Callable[..., np.ndarray], dtype: str) -> None:
    np.testing.assert_array_equal(of_one(body, dtype=dtype), expected(X.astype(dtype)))


def test_long_rows_pass_over_nan_in_vectors_and_behind_them() -> None:
    for count in (16, 67):
        wide = np.tile(X, (1, count))
        np.testing.assert_array_equal(of_one(lambda x: relay.max(x, axis=1), wide=count), np.nanmax(wide, 1))
        np.testing.assert_array_equal(of_one(lambda x: relay.argmax(x, axis=1), wide=count), np.nanargmax(wide, 1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "name", ["maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
)
def test_two_inputs_with_nan_in_either(name: str, dtype: str) -> None:
    x, y = (relay.var(each, shape=X.shape, dtype=dtype) for each in "xy")
    program = relay.Function([x, y], getattr(relay, name)(x, y))
    for one, other in ((X, Y), (Y, X), (X, X)):
        one, other = one.astype(dtype), other.astype(dtype)
        np.testing.assert_array_equal(run(program, one, other)[0], getattr(np, name)(one, other))


@pytest.mark.parametrize(
    ("largest", "expected"), [(True, [[1, 2, 0, 3], [2, 0, 1, 3]]), (False, [[3, 0, 2, 1], [3, 1, 0, 2]])]
)
def test_nan_is_the_largest_of_topk(largest: bool, expected: list[list[int]]) -> None:
    for k in (4, 2):
        found = of_one(lambda x, k=k: relay.topk(x, k, ret_type="indices", is_ascend=not largest))
        np.testing.assert_array_equal(found, np.array(expected)[:, :k])


def node(op: str, *names: str, **attrs: object) -> onnx.ModelProto:
    inputs = {"x": X, "y": Y, "axis": np.array([1])}
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(inputs[n].dtype), inputs[n].shape)
        for n in names
    ]
    kind = onnx.TensorProto.INT64 if op in ("ArgMax", "ArgMin", "NonZero") else onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(op, list(names), ["out"], **attrs)],
        "g",
        given,
        [helper.make_tensor_value_info("out", kind, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(
    "model",
    [
        *(node(op, "x") for op in ("Relu", "Sign", "HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "LeakyRelu")),
        *(node(op, "x") for op in ("ThresholdedRelu", "Softmax", "Hardmax", "NonZero", "Softsign", "Shrink")),
        *(node(op, *names) for op in ("Max", "Min") for names in ("xy", "yx", "x")),
        node("ReduceMax", "x", "axis", keepdims=0),
        node("ReduceMax", "x", keepdims=0),
        node("ArgMax", "x", axis=1),
        node("ArgMax", "x", axis=1, select_last_index=1),
        node("ArgMin", "x", axis=1),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_models_give_what_onnxruntime_gives(model: onnx.ModelProto) -> None:
    arrays = {"x": X, "y": Y, "axis": np.array([1])}
    names = [each.name for each in model.graph.input]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {name: arrays[name] for name in names})
    for got, want in zip(run(model, *(arrays[name] for name in names)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
