"""What onnxruntime gives for one ONNX operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper


def onnx_result(operator: str, *inputs: np.ndarray | None, opset: int = 17, **attributes: Any) -> np.ndarray:
    """Return the first output of an ONNX operator; an input that is None is left out."""
    names = [f"input_{i}" if value is not None else "" for i, value in enumerate(inputs)]
    given = {n: v for n, v in zip(names, inputs, strict=True) if v is not None}
    node = helper.make_node(operator, names, ["output"], **attributes)
    types = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()
    ]
    graph = helper.make_graph([node], "graph", types, [onnx.ValueInfoProto(name="output")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, given)[0]


def resized(data: np.ndarray, size: tuple[int, ...], roi: list[float] | None = None, **attributes: Any) -> np.ndarray:
    """Return ONNX's Resize of the spatial axes to a size."""
    region = None
    if roi is not None:
        half = len(roi) // 2
        region = np.array([0, 0, *roi[:half], 1, 1, *roi[half:]], "float32")
    return onnx_result("Resize", data, region, None, np.array([*data.shape[:2], *size]), **attributes)
