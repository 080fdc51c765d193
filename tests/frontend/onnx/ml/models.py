"""Models of one operator of ai.onnx.ml, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import vmkit

S, F, D = TensorProto.STRING, TensorProto.FLOAT, TensorProto.DOUBLE
I64, B = TensorProto.INT64, TensorProto.BOOL


def single(
    op_type: str,
    inputs: Mapping[str, tuple[Sequence[int | str], Any]],
    outputs: Sequence[int],
    version: int = 4,
    domain: str = "ai.onnx.ml",
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node; inputs as (shape, element type), outputs by element type alone."""
    names = [f"y{k}" for k in range(len(outputs))]
    node = helper.make_node(op_type, list(inputs), names, domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, _code(t), s) for n, (s, t) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, outputs, strict=True)],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def onnx_node(
    op_type: str, inputs: Mapping[str, tuple[Sequence[int | str], Any]], outputs: Sequence[int], **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one node of ONNX's own domain, as :func:`single` does."""
    return single(op_type, inputs, outputs, domain="", **attributes)


def _code(dtype: Any) -> int:
    return TensorProto.STRING if np.dtype(dtype) == object else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def agrees(proto: onnx.ModelProto, *feeds: Mapping[str, np.ndarray]) -> None:
    """Assert that a model gives what onnxruntime gives."""
    machine = vmkit.VirtualMachine(vmkit.compile(proto, target="llvm"), num_threads=1)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for feed in feeds:
        result = machine.run(**feed)
        results = [r.numpy() for r in (result if isinstance(result, tuple) else (result,))]
        same(results, session.run(None, dict(feed)))


def same(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Assert that results have the types, shapes and values that they should have."""
    assert [(r.dtype, r.shape) for r in results] == [(e.dtype, e.shape) for e in expected]
    for result, other in zip(results, expected, strict=True):
        if other.dtype == object:
            assert result.tolist() == other.tolist()
        else:
            np.testing.assert_allclose(result, other, rtol=1e-3, atol=1e-4)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Return random numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def listed(*shape: int, seed: int = 0) -> list[float]:
    """Return random numbers as an attribute."""
    return [float(v) for v in numbers(*shape, seed=seed).ravel()]


def texts(*values: object) -> np.ndarray:
    """Return an array of strings."""
    return np.array(values, dtype=object)
