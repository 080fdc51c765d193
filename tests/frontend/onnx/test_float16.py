"""Models in float16: on CPUs they are as near to the network in float32 as onnxruntime, or as their results allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import vmkit
from tests.frontend.onnx.programs import array, model, node, session

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def _convolutions() -> tuple[list[Any], Any, dict[str, np.ndarray]]:
    weights = {"w0": array(16, 3, 3, 3) / 4, "b0": array(16, seed=1) / 4, "w1": array(16, 16, 3, 3, seed=2) / 8}
    nodes = [
        node("Conv", "x w0 b0", "a", pads=[1] * 4),
        node("HardSwish", "a", "b"),
        node("Conv", "b w1", "c", pads=[1] * 4),
        node("Add", "b c", "d"),
        node("Concat", "d b", "e", axis=1),
        node("GlobalAveragePool", "e", "f"),
        node("Sigmoid", "f", "y"),
    ]
    return nodes, [1, 3, 20, 20], weights


def _attention() -> tuple[list[Any], Any, dict[str, np.ndarray]]:
    weights = {name: array(32, 32, seed=i) / 6 for i, name in enumerate(("q", "k", "v", "o"))}
    nodes = [
        *[node("MatMul", f"x {name}", f"x{name}") for name in "qkv"],
        node("Transpose", "xk", "kt", perm=[0, 2, 1]),
        node("MatMul", "xq kt", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p xv", "m"),
        node("MatMul", "m o", "n"),
        node("Add", "n x", "r"),
        node("LayerNormalization", "r g", "y"),
    ]
    return nodes, [1, 24, 32], weights | {"g": np.linspace(0.5, 1.5, 32, dtype="float32")}


def _recurrent(kind: str, gates: int) -> tuple[list[Any], Any, dict[str, np.ndarray]]:
    weights = {"w": array(2, gates * 16, 8) / 4, "r": array(2, gates * 16, 16, seed=1) / 4}
    nodes = [node(kind, "x w r b", "y", hidden_size=16, direction="bidirectional")]
    return nodes, [30, 2, 8], weights | {"b": array(2, 2 * gates * 16, seed=2)}


MODELS = {
    "convolutions": _convolutions(),
    "attention": _attention(),
    "lstm": _recurrent("LSTM", 4),
    "gru": _recurrent("GRU", 3),
}


def _in_float16(proto: onnx.ModelProto, keeps_inputs: bool) -> onnx.ModelProto:
    """Return a model in float16, whose inputs and outputs are cast from and to float32 or are float16 themselves."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for tensor in made.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float16"), tensor.name))
    if not keeps_inputs:
        made.graph.input[0].type.tensor_type.elem_type = HALF
        return made
    for each in made.graph.node:
        each.input[:] = ["x_half" if name == "x" else name for name in each.input]
        each.output[:] = ["y_half" if name == "y" else name for name in each.output]
    made.graph.node.insert(0, helper.make_node("Cast", ["x"], ["x_half"], to=HALF))
    made.graph.node.append(helper.make_node("Cast", ["y_half"], ["y"], to=FLOAT))
    return made


@pytest.mark.sweep
@pytest.mark.parametrize("keeps_inputs", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_errors_are_not_above_onnxruntimes(name: str, keeps_inputs: bool) -> None:
    nodes, shape, weights = MODELS[name]
    weights = {n: w.astype("float16").astype("float32") for n, w in weights.items()}
    exact = model(nodes, {"x": (shape, "float32")}, "y", weights, opset=18)
    proto = _in_float16(exact, keeps_inputs)
    x = array(*shape, seed=7).astype("float16")
    given = x.astype("float32") if keeps_inputs else x
    (want,) = session(exact).run(None, {"x": x.astype("float32")})
    (peer,) = session(proto).run(None, {"x": given})
    executable = vmkit.compile(proto, "llvm")
    got = vmkit.VirtualMachine(executable, "cpu").run(given).numpy()
    assert got.dtype == ("float32" if keeps_inputs else "float16")

    def error(value: Any) -> float:
        return float(np.abs(np.asarray(value, "float64") - want).mean())

    if keeps_inputs:
        # What is left is float32's own.
        assert error(got) <= max(error(peer), 1e-6 * np.abs(want).mean())
    else:
        assert error(got) <= 1.02 * max(error(peer), error(want.astype("float16")))
