"""Read an ONNX model from where it is, and refuse what is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ...errors import ModelError
from .external import bring_in

__all__ = ["Loaded", "load_model"]


@dataclass(frozen=True)
class Loaded:
    """A model that was read.

    Attributes
    ----------
    model : ModelProto
        The model. Initializers whose data is in other files are checked, but not read.
    name : str
        What to call it in messages.
    folder : Path or None
        Where other files are looked for; None for a model that comes from memory.
    """

    model: onnx.ModelProto
    name: str
    folder: Path | None = None


def load_model(source: Any) -> Loaded:
    """Return a model of any form.

    Parameters
    ----------
    source : ModelProto, str, PathLike or bytes
        The model, a file, or what a file holds. External data is read from the folder of the file.

    Raises
    ------
    ModelError
        When it is empty, truncated, or something other than an ONNX model.
    """
    if isinstance(source, onnx.ModelProto):
        return _whole(source, "the model")
    if isinstance(source, bytes | bytearray | memoryview):
        return _whole(_parse(bytes(source), "the model"), "the model")
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"an ONNX model is a ModelProto, a path or bytes, not {type(source).__name__}")
    path = Path(source)
    name = path.name
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "no such file"
        raise ModelError(f"{path}: {kind}; give the path of an .onnx file")
    return _whole(_parse(path.read_bytes(), name), name, path.parent)


def _whole(model: onnx.ModelProto, name: str, folder: Path | None = None) -> Loaded:
    loaded = Loaded(_checked(model, name), name, folder)
    try:
        bring_in(model, folder)
    except (ModelError, OSError) as error:
        raise ModelError(f"{name}: {error}") from error
    return loaded


def _parse(data: bytes, name: str) -> onnx.ModelProto:
    if not data:
        raise ModelError(f"{name} is empty; an ONNX model was expected")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(f"{name} is no ONNX model, or a truncated one: {error}") from None
    return model


def _checked(model: onnx.ModelProto, source: str) -> onnx.ModelProto:
    """Return the model if it has what every model has: other data may happen to parse as a protobuf."""
    missing = []
    if not model.ir_version:
        missing.append("IR version")
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        missing.append("graph")
    if not model.opset_import and model.ir_version >= 3:
        missing.append("opset")
    if missing:
        raise ModelError(f"{source} is no ONNX model, or a truncated one: it has no {', no '.join(missing)}")
    for name in _names(model.graph):
        # A string that is no UTF-8 comes as bytes.
        if not isinstance(name, str):
            raise ModelError(f"{source} is malformed: the name {name!r} is no UTF-8")
    return model


def _names(graph: onnx.GraphProto) -> Iterator[Any]:
    """Yield the names that stand for values in a graph, and those of its inputs' dimensions."""
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from (node.op_type, node.name, node.domain, *node.input, *node.output)
    for value in graph.input:
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
