"""Read an ONNX model from where it is, and refuse what is none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ..._dataclasses import dataclass
from ...errors import ModelError
from .external import bring_in, external_tensors, mapped
from .in_file import InFile
from .long_lists import LongList, LongTexts
from .weights import without_weights

__all__ = ["Loaded", "parts_of", "read_model"]


@dataclass(frozen=True)
class Loaded:
    """A model that was read.

    Attributes
    ----------
    model : ModelProto
        The model. Initializers whose data is in other files are checked, but not read; those in `weights` have none.
    name : str
        What to call it in messages.
    folder : Path or None
        Where other files are looked for; None for a model that comes from memory.
    weights : mapping of str to InFile
        The initializers of the main graph whose data was left in the model's file.
    lists : mapping of (str, str) to LongList
        Lists that were left there, by the first output of their node and the name of the attribute.
    """

    model: onnx.ModelProto
    name: str
    folder: Path | None = None
    weights: Mapping[str, InFile] = field(default_factory=dict)
    lists: Mapping[tuple[str, str], LongList] = field(default_factory=dict)


def read_model(source: Any, whole: bool = False) -> Loaded:
    """Return a model of any form.

    Parameters
    ----------
    source : ModelProto, str, PathLike, bytes or Loaded
        The model, a file, or what a file holds. External data is read from the folder of the file. What was read
        already is returned as it is.
    whole : bool
        Whether to read the weights of a file at once, with all else.

    Raises
    ------
    ModelError
        When it is empty, truncated, or something other than an ONNX model.
    """
    if isinstance(source, Loaded):
        return source
    if isinstance(source, onnx.ModelProto):
        return _complete(Loaded(_checked(source, "the model"), "the model"))
    if isinstance(source, bytes | bytearray | memoryview):
        return _complete(Loaded(_checked(_parse(bytes(source), "the model"), "the model"), "the model"))
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"an ONNX model is a ModelProto, a path or bytes, not {type(source).__name__}")
    path = Path(source)
    name = path.name
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "no such file"
        raise ModelError(f"{path}: {kind}; give the path of an .onnx file")
    data, weights, lists = (path.read_bytes(), {}, {}) if whole else without_weights(path)
    return _complete(Loaded(_checked(_parse(data, name), name), name, path.parent, weights, lists))


def parts_of(loaded: Loaded) -> Iterator[bytes | memoryview]:
    """Yield all that a model consists of, wherever it lies: for a digest."""
    yield loaded.model.SerializeToString(deterministic=True)
    for name, place in sorted(loaded.weights.items()):
        yield name.encode()
        yield _bytes_of(place.array())
    for place_of_list, elements in sorted(loaded.lists.items()):
        yield repr(place_of_list).encode()
        if isinstance(elements, LongTexts):
            yield repr(elements.known).encode()
            yield _bytes_of(elements.codes)
        else:
            yield _bytes_of(elements.array())
    for tensor in external_tensors(loaded.model):
        yield _bytes_of(mapped(tensor, loaded.folder))


def _bytes_of(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _complete(loaded: Loaded) -> Loaded:
    """Return the model after its external data has been checked."""
    try:
        bring_in(loaded.model, loaded.folder)
    except (ModelError, OSError) as error:
        raise ModelError(f"{loaded.name}: {error}") from error
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
    for name in _names(model):
        # A string that is no UTF-8 comes as bytes.
        if not isinstance(name, str):
            raise ModelError(f"{source} is malformed: the name {name!r} is no UTF-8")
    return model


def _names(model: onnx.ModelProto) -> Iterator[Any]:
    """Yield the names that stand for values and operators in a model, and those of its inputs' dimensions."""
    graphs, nodes = [model.graph], [node for function in model.functions for node in function.node]
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
    while graphs or nodes:
        for graph in graphs:
            for value in (*graph.input, *graph.output, *graph.initializer):
                yield value.name
            yield from (dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim)
            nodes += graph.node
        graphs = []
        for node in nodes:
            yield from (node.op_type, node.name, node.domain, *node.input, *node.output)
            graphs += [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
            yield from (attribute.name for attribute in node.attribute)
        nodes = []
        graphs = [graph for graph in graphs if graph.node or graph.output]
