"""Tensors whose data is in a file beside the model: checked before anything is read, and mapped rather than copied.

Source: https://github.com/onnx/onnx/blob/main/docs/ExternalData.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from ...errors import ModelError
from .in_file import InFile

__all__ = ["bring_in", "external_tensors", "is_external", "leads_out", "mapped"]

_KEYS = frozenset({"location", "offset", "length", "checksum", "basepath"})
# Elements of these types share bytes.
_PACKED: dict[int, int] = {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.INT2: 2, TensorProto.UINT2: 2}
_PACKED |= {TensorProto.FLOAT4E2M1: 4}


def is_external(tensor: TensorProto) -> bool:
    """Say whether a tensor's data is in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def external_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of a model whose data is in other files."""
    return (tensor for tensor, _ in _tensors(model) if is_external(tensor))


def bring_in(model: onnx.ModelProto, folder: Path | None) -> None:
    """Check every external tensor of a model, and read those into it that are in attributes or share bytes.

    Raises
    ------
    ModelError
        With all tensors whose data is missing, too short, or outside of `folder`; `folder` is None for a model that
        comes from memory, whose tensors have to be in it.
    """
    problems: list[str] = []
    for tensor, is_initializer in _tensors(model):
        if not is_external(tensor):
            continue
        try:
            place = _place(tensor, folder)
        except ModelError as error:
            problems.append(f"{tensor.name!r}: {error}")
            continue
        if not is_initializer or tensor.data_type in _PACKED:
            with place.file.open("rb") as file:
                file.seek(place.offset)
                tensor.raw_data = file.read(_bytes(tensor))
            tensor.data_location = TensorProto.DEFAULT
            del tensor.external_data[:]
    if problems:
        raise ModelError("external data that cannot be read:\n  " + "\n  ".join(problems[:20]))


def mapped(tensor: TensorProto, folder: Path | None) -> np.ndarray:
    """Return the array of an external tensor, read-only, over the file's own pages."""
    return _place(tensor, folder).array()


def _place(tensor: TensorProto, folder: Path | None) -> InFile:
    entries = {e.key: e.value for e in tensor.external_data}
    if folder is None:
        raise ModelError("the model came without a folder; give the path of the file")
    unknown = sorted(set(entries) - _KEYS)
    if unknown:
        raise ModelError(f"its entry {', '.join(map(repr, unknown))} is not known")
    if not entries.get("location"):
        raise ModelError("it names no file ('location')")
    file = _file(entries["location"], folder)
    if any(d < 0 for d in tensor.dims):
        raise ModelError(f"it has the shape {list(tensor.dims)}")
    length, offset = _bytes(tensor), _number(entries, "offset", 0)
    given = _number(entries, "length", length)
    if given != length:
        raise ModelError(f"its length is {given} bytes, but {_type(tensor)} takes {length}")
    size = file.stat().st_size
    if offset + length > size:
        raise ModelError(
            f"{file.name} has {size} bytes, but {_type(tensor)} takes those from {offset} to {offset + length}"
        )
    return InFile(file, offset, tensor.data_type, tuple(tensor.dims))


def _file(location: str, folder: Path) -> Path:
    """Return the file of a location; ModelError unless it is a regular file below the folder, links followed."""
    path = PurePosixPath(location)
    is_windows = PureWindowsPath(location).drive or "\\" in location
    if path.is_absolute() or is_windows or ".." in path.parts or "\0" in location:
        raise ModelError(f"the location {location!r} is not a path below the model's folder")
    file = (folder / path).resolve()
    if leads_out(file, folder):
        raise ModelError(f"the location {location!r} leads out of the model's folder")
    if not file.is_file():
        raise ModelError(f"there is no file {location!r} in the model's folder")
    return file


def leads_out(file: Path, folder: Path) -> bool:
    """Say whether a file, links followed, lies outside of a model's folder.

    In Hugging Face's cache the files of ``models--NAME/snapshots/REVISION`` are links into ``models--NAME/blobs``,
    which belongs to the model.
    """
    places = [folder.resolve()]
    for above in (places[0], *places[0].parents):
        repository = above.parent.parent
        blobs = repository / "blobs"
        if above.parent.name == "snapshots" and "--" in repository.name and blobs.is_dir() and not blobs.is_symlink():
            places.append(blobs)
    return not any(file.is_relative_to(place) for place in places)


def _number(entries: dict[str, str], key: str, default: int) -> int:
    if key not in entries:
        return default
    text = entries[key]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ModelError(f"its {key} is {text!r}, expected a number of bytes")
    return int(text)


def _bytes(tensor: TensorProto) -> int:
    count = math.prod(tensor.dims)
    if tensor.data_type in _PACKED:
        return -(-count * _PACKED[tensor.data_type] // 8)
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except (KeyError, TypeError, ValueError):
        dtype = np.dtype(object)
    if dtype.kind == "O":
        raise ModelError(f"elements of the type {tensor.data_type} cannot be in another file")
    return int(count * dtype.itemsize)


def _type(tensor: TensorProto) -> str:
    return f"{TensorProto.DataType.Name(tensor.data_type)}{list(tensor.dims)}"


def _tensors(model: onnx.ModelProto) -> Iterator[tuple[TensorProto, bool]]:
    """Yield every tensor of a model, and whether it is an initializer of a graph."""
    graphs = [model.graph]
    nodes = [n for f in model.functions for n in f.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from ((t, True) for t in graph.initializer)
            yield from ((t, False) for s in graph.sparse_initializer for t in (s.values, s.indices))
            nodes += graph.node
        for node in nodes:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    yield attribute.t, False
                yield from ((t, False) for t in attribute.tensors)
                sparse = [attribute.sparse_tensor] if attribute.type == AttributeProto.SPARSE_TENSOR else []
                yield from ((t, False) for s in (*sparse, *attribute.sparse_tensors) for t in (s.values, s.indices))
                graphs += [attribute.g] if attribute.type == AttributeProto.GRAPH else []
                graphs += attribute.graphs
        nodes = []
