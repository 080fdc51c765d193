"""What an executable depends on: the key under which the cache keeps it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.target import Target

from .._version import __version__
from ..cache import Key
from ..errors import ModelError
from ..target import TargetPlan
from ..target.llvm import library_version
from ..tophub.choosing import in_force
from .models import is_read_onnx
from .options import current_options

__all__ = ["kernel_key", "key_of", "model_digest"]

_PACKAGE = Path(__file__).parents[1]
# Where the key of a StringStringEntryProto of ONNX (fields 1 and 2, both texts) says that its value is a file's name.
_LOCATION = re.compile(rb"\x0a\x08location(\x12)?")


def key_of(digest: str, plan: TargetPlan, params: Mapping[str, Any], shapes: Mapping[str, Sequence[Any]] | None) -> Key:
    """Return the key of a compilation with the options and records that are in force.

    Parameters
    ----------
    digest
        Of the model; see :func:`model_digest`.
    plan
        The targets, with what ``native`` means here.
    params
        The caller's arrays by name.
    shapes
        What the caller says of the shapes of inputs.
    """
    arrays = {name: _array_digest(value) for name, value in sorted(params.items())}
    parts = {
        "model": digest,
        "shapes": json.dumps(_plain(shapes or {}), sort_keys=True),
        "params": json.dumps(arrays),
        "target": json.dumps(plan.to_json(), sort_keys=True),
        "records": _digest(json.dumps(record.to_json(), sort_keys=True).encode() for record in in_force()),
    }
    return Key({**parts, **_compiler_parts()})


def kernel_key(text: str, pipeline: str, target: Target) -> Key:
    """Return the key of kernels that were scheduled, as `text` tells all of them, built by a pipeline for a target."""
    parts = {"kernel": _digest([text.encode()]), "pipeline": pipeline, "target": str(target), "host": str(target.host)}
    return Key({**parts, **_compiler_parts()})


def _compiler_parts() -> dict[str, str]:
    """Return what everything that is compiled depends on: the options in force, and the versions."""
    options = current_options()
    return {
        "opt_level": str(options.opt_level),
        "passes": json.dumps({"required": sorted(options.required), "disabled": sorted(options.disabled)}),
        "config": json.dumps({name: str(value) for name, value in sorted(options.config.items())}),
        "vmkit": f"{__version__} {_sources_digest()}",
        "tvm": str(tvm.__version__),
        "tvm_ffi": str(tvm_ffi.__version__),
        "llvm": library_version(),
    }


def model_digest(model: Any) -> str | None:
    """Return the digest of all that a model consists of; None for one whose parts are not all known.

    A file counts with its content, an ONNX file with those of the files that it names; another model with its structure
    and its constants.
    """
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        if path.is_dir():
            return _digest(_folder_parts(path))
        return _digest(_file_parts(path)) if path.is_file() else None
    if hasattr(model, "SerializeToString") or isinstance(model, bytes | bytearray | memoryview):
        is_read = hasattr(model, "SerializeToString")
        data = model.SerializeToString(deterministic=True) if is_read else bytes(model)
        return None if _LOCATION.search(data) else _digest([b"onnx", data])
    if is_read_onnx(model):
        from ..frontend.onnx.load import parts_of

        return _digest([b"onnx, read", *parts_of(model)])
    if isinstance(model, tvm.ir.IRModule | tvm.ir.BaseFunc):
        return _digest([b"module", tvm.ir.save_json(model).encode()])
    return None


def _folder_parts(folder: Path) -> Iterator[bytes]:
    """Yield what a folder with a model consists of: its files, which may refer to each other, by name."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        yield str(path.relative_to(folder)).encode()
        yield _contents(path)


def _file_parts(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield path.suffix.encode()
    yield data
    if path.suffix != ".onnx":
        return
    places = list(_LOCATION.finditer(data))
    if not all(place[1] for place in places):
        # It writes its entries in another order than protobuf itself: what it names is among the files beside it.
        yield from _folder_parts(path.parent)
    for name in sorted({_text_at(data, place.end()) for place in places if place[1]}):
        file = path.parent / os.fsdecode(name)
        yield name
        yield _contents(file) if file.is_file() else b"none"


def _text_at(data: bytes, at: int) -> bytes:
    """Return the text whose length, as protobuf writes one, begins at a place."""
    size = shift = 0
    while at < len(data):
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return data[at : at + size]


def _contents(path: Path) -> bytes:
    """Return the digest of a file, which may be larger than memory."""
    try:
        with open(path, "rb") as file:
            found = hashlib.sha256()
            while block := file.read(1 << 20):
                found.update(block)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    return found.digest()


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 of parts, each with its length, so that no two lists of parts look the same."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


def _array_digest(value: Any) -> str:
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    data = repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
    return _digest([str(array.dtype).encode(), str(array.shape).encode(), data])


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case int() | str() | float() | None:
            return value
    return str(value)


@functools.cache
def _sources_digest() -> str:
    """Return the digest of vmkit itself: a version that is being worked on has the number of the last one."""
    files = [path for path in sorted(_PACKAGE.rglob("*")) if path.suffix in (".py", ".json", ".rly")]
    named = ((str(path.relative_to(_PACKAGE)).encode(), path.read_bytes()) for path in files)
    return _digest(part for parts in named for part in parts)[:16]
