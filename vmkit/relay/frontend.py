"""Relay's frontends; each is loaded when it is first called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

__all__ = ["from_onnx"]


def from_onnx(
    model: Any,
    shape: Mapping[str, Any] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the Relay module of an ONNX model, and its parameters; see :func:`vmkit.frontend.onnx.from_onnx`."""
    from ..frontend.onnx import from_onnx as convert

    return convert(model, shape, dtype, opset, freeze_params, convert_config, export_node_renamed_model_path)
