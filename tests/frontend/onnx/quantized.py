"""Numbers of 8 bits, and models of them that are compared exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime import InferenceSession

from tests.frontend.onnx.programs import Compiled

rng = np.random.default_rng(3)


def integers(*shape: int, dtype: str = "uint8") -> np.ndarray:
    """Return numbers of a type, from its least to its largest."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def weights(*shape: int) -> np.ndarray:
    """Return int8 of seven bits: onnxruntime's sums of products of larger ones saturate on processors without VNNI."""
    return rng.integers(-64, 63, shape, "int8", endpoint=True)


def f32(*values: float) -> np.ndarray:
    return np.float32(values[0] if len(values) == 1 else values)


def u8(*values: int) -> np.ndarray:
    return np.uint8(values[0] if len(values) == 1 else values)


def i8(*values: int) -> np.ndarray:
    return np.int8(values[0] if len(values) == 1 else values)


def agrees_exactly(
    proto: onnx.ModelProto, *feeds: Mapping[str, Any], off_by: int = 0, by_reference: bool = False
) -> None:
    """Assert that a model agrees with onnxruntime in every number; those of 8 bits may differ by `off_by`.

    `by_reference` has it compared with ONNX's reference: onnxruntime's sums of products of bytes saturate on processors
    without VNNI.
    """
    compiled = Compiled(proto)
    data = proto.SerializeToString()
    peer = ReferenceEvaluator(proto) if by_reference else InferenceSession(data, providers=["CPUExecutionProvider"])
    for feed in feeds:
        for actual, expected in zip(compiled(**feed), peer.run(None, dict(feed)), strict=True):
            assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
            else:
                differences = np.abs(actual.astype("int64") - expected.astype("int64"))
                assert differences.max(initial=0) <= (off_by if expected.dtype.itemsize == 1 else 0)


def with_types(proto: onnx.ModelProto, outputs: Mapping[str, str], *domains: str) -> onnx.ModelProto:
    """Return a model that says the types of its outputs, and imports domains."""
    for output in proto.graph.output:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(outputs[output.name]))
        output.CopyFrom(helper.make_tensor_value_info(output.name, code, None))
    proto.opset_import.extend(helper.make_opsetid(d, 1) for d in domains)
    return proto
