"""What operators make of NaN: numpy's values, and onnxruntime's for models of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper

import vmkit
from vmkit import relay
from vmkit.relay.lower import lower_module
from vmkit.relay.transform import infer_module

NAN, INF = math.nan, math.inf
X = np.array([[1, NAN, 3, -INF], [INF, 2, NAN, 0]], "float32")
Y = np.array([[NAN, 1, NAN, 2], [NAN, INF, -INF, NAN]], "float32")
DTYPES = ["float16", "float32", "float64"]
Body = Callable[[relay.Expr], relay.Expr]


def run(program: relay.Function | onnx.ModelProto, *arrays: np.ndarray) -> list[np.ndarray]:
    result = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1).run(*arrays)
    return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]


def of_one(array: np.ndarray, *bodies: Body) -> list[np.ndarray]:
    x = relay.var("x", shape=array.shape, dtype=str(array.dtype))
    return run(relay.Function([x], relay.Tuple([body(x) for body in bodies])), array)


OF_ONE: dict[str, tuple[Body, Callable[[np.ndarray], np.ndarray]]] = {
    "relu": (relay.nn.relu, lambda x: np.maximum(x, 0)),
    "clip": (lambda x: relay.clip(x, 0.0, 2.0), lambda x: np.clip(x, 0, 2)),
    "clip above": (lambda x: relay.clip(x, -INF, 2.0), lambda x: np.minimum(x, 2)),
    "sign": (relay.sign, np.sign),
    "sort": (lambda x: relay.sort(x, axis=1), lambda x: np.sort(x, 1)),
    "argsort": (lambda x: relay.argsort(x, axis=1), lambda x: np.argsort(x, 1, kind="stable")),
    "argwhere": (lambda x: relay.argwhere(x), np.argwhere),
    "truth": (lambda x: relay.cast(x, "bool"), lambda x: x.astype("bool")),
    "max": (lambda x: relay.max(x, axis=1), lambda x: np.nanmax(x, 1)),
    "min": (lambda x: relay.min(x, axis=0), lambda x: np.nanmin(x, 0)),
    "argmax": (lambda x: relay.argmax(x, axis=1), lambda x: np.nanargmax(x, 1)),
    "argmin": (lambda x: relay.argmin(x, axis=0), lambda x: np.nanargmin(x, 0)),
    "argmax of all": (lambda x: relay.argmax(x), np.nanargmax),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_input_with_nan(dtype: str) -> None:
    array = X.astype(dtype)
    results = of_one(array, *(body for body, _ in OF_ONE.values()))
    for (name, (_, expected)), result in zip(OF_ONE.items(), results, strict=True):
        np.testing.assert_array_equal(result, expected(array), name)


def test_long_rows_pass_over_nan_in_vectors_and_behind_them() -> None:
    for count in (16, 67):
        wide = np.tile(X, (1, count))
        largest, position = of_one(wide, lambda x: relay.max(x, axis=1), lambda x: relay.argmax(x, axis=1))
        np.testing.assert_array_equal(largest, np.nanmax(wide, 1))
        np.testing.assert_array_equal(position, np.nanargmax(wide, 1))


OF_TWO = ["maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_inputs_with_nan_in_either(dtype: str) -> None:
    x, y = (relay.var(each, shape=X.shape, dtype=dtype) for each in "xy")
    program = relay.Function([x, y], relay.Tuple([getattr(relay, name)(x, y) for name in OF_TWO]))
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1)
    for one, other in ((X, Y), (Y, X), (X, X)):
        one, other = one.astype(dtype), other.astype(dtype)
        for name, result in zip(OF_TWO, machine.run(one, other), strict=True):
            np.testing.assert_array_equal(result.numpy(), getattr(np, name)(one, other), name)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_limit_takes_one_instruction_and_keeps_nan_on_either_side(name: str) -> None:
    limit = np.array([0, 2, -1, INF], "float32")
    build, expected = getattr(relay, name), getattr(np, name)
    cases: list[tuple[Body, np.ndarray, int]] = [
        (lambda x: build(x, relay.const(limit)), expected(X, limit), 0),
        (lambda x: build(relay.const(limit), x), expected(X, limit), 0),
        (lambda x: build(build(x, relay.const(0.0)), relay.const(6.0)), expected(expected(X, 0), 6), 0),
        (lambda x: build(relay.nn.relu(x), x), expected(np.maximum(X, 0), X), 1),
        # A limit may be NaN itself.
        (lambda x: build(x, relay.const(Y[0])), expected(X, Y[0]), 1),
        (lambda x: build(relay.const(Y[0]), x), expected(X, Y[0]), 1),
    ]
    for got, (_, want, _) in zip(of_one(X, *(body for body, _, _ in cases)), cases, strict=True):
        np.testing.assert_array_equal(got, want)
    for body, _, count in cases:
        x = relay.var("x", shape=X.shape)
        lowered = lower_module(infer_module(tvm.IRModule({"main": relay.Function([x], body(x))}))).module
        assert lowered.script().count("isnan(") == count


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_is_the_largest_of_topk(dtype: str) -> None:
    array = np.concatenate([X, [[-0.0, NAN, 0.0, -NAN], [NAN, NAN, NAN, NAN]]]).astype(dtype)
    rows = np.arange(len(array))[:, None]
    largest = np.array([[1, 2, 0, 3], [2, 0, 1, 3], [1, 3, 0, 2], [0, 1, 2, 3]])
    smallest = np.array([[3, 0, 2, 1], [3, 1, 0, 2], [0, 2, 1, 3], [0, 1, 2, 3]])
    bodies = [
        lambda x, k=k, what=what, is_ascend=is_ascend: relay.topk(x, k, ret_type=what, is_ascend=is_ascend)
        for k in (4, 2)
        for is_ascend in (False, True)
        for what in ("indices", "values")
    ]
    found = iter(of_one(array, *bodies))
    for k in (4, 2):
        for order in (largest, smallest):
            np.testing.assert_array_equal(next(found), order[:, :k])
            values = next(found)
            np.testing.assert_array_equal(values, array[rows, order[:, :k]])
            np.testing.assert_array_equal(np.signbit(values), np.signbit(array[rows, order[:, :k]]))


NODES: list[tuple[str, str, dict[str, object]]] = [
    *((op, "x", {}) for op in ("Relu", "Sign", "HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "LeakyRelu")),
    *((op, "x", {}) for op in ("ThresholdedRelu", "Softmax", "Hardmax", "NonZero", "Softsign", "Shrink")),
    *((op, names, {}) for op in ("Max", "Min") for names in ("xy", "yx", "x")),
    ("Clip", "x01", {}),
    ("ReduceMax", "x1", {"keepdims": 0}),
    ("ReduceMax", "x", {"keepdims": 0}),
    ("ArgMax", "x", {"axis": 1}),
    ("ArgMax", "x", {"axis": 1, "select_last_index": 1}),
    ("ArgMin", "x", {"axis": 1}),
    ("MaxPool", "i", {"kernel_shape": [2, 2]}),
    ("GlobalMaxPool", "i", {}),
]


def test_models_give_what_onnxruntime_gives() -> None:
    inputs = {"x": X, "y": Y, "i": np.arange(32, dtype="float32").reshape(1, 2, 4, 4)}
    inputs["i"][0, 1, 2, 3] = NAN  # the last of its windows
    numbers = {"0": np.float32(0), "1": np.array([1]), "2": np.float32(2)}
    nodes = []
    for at, (op, names, attrs) in enumerate(NODES):
        used = [{"0": "0", "1": "2"}.get(name, name) if op == "Clip" else name for name in names]
        nodes.append(helper.make_node(op, used, [f"out{at}"], f"{op} {names} {at}", **attrs))
    kinds = {"ArgMax": onnx.TensorProto.INT64, "ArgMin": onnx.TensorProto.INT64, "NonZero": onnx.TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
        [
            helper.make_tensor_value_info(node.output[0], kinds.get(node.op_type, onnx.TensorProto.FLOAT), None)
            for node in nodes
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in numbers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for node, got, want in zip(nodes, run(model, *inputs.values()), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=node.name)
