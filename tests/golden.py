"""Programs that Relay 0.14 ran, with what went in and what came out.

A folder, or a ZIP archive of folders, for each program: ``program.relay``, the same as ``program.json`` (which may be
compressed), ``io.npz`` and ``meta.json``, which says how inputs and outputs are made of the arrays.
"""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.places import DATA, SHARED
from vmkit.values.conversion import ADT

PROGRAMS = DATA / "golden_programs.zip"
COLLECTION = SHARED / "golden"
needs_collection = pytest.mark.skipif(
    not COLLECTION.is_dir(),
    reason="the whole collection does not lie beside the repository; a selection from it is run",
)

_TOLERANCES = {"float64": (1e-6, 1e-8), "float32": (1e-4, 1e-5), "float16": (1e-2, 1e-3), "bfloat16": (2e-2, 1e-2)}


@dataclass(frozen=True, eq=False)
class DefinedPrefix:
    """A vector of which only the first elements have a defined value."""

    array: np.ndarray
    length: int


@dataclass(frozen=True, eq=False)
class Constructed:
    """A value of an algebraic data type: the tag of its constructor, and its fields."""

    tag: int
    fields: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class GoldenProgram:
    """One program of the collection."""

    name: str
    text: str
    json: str
    operators: tuple[str, ...]
    inputs: list[Any]
    outputs: Any
    error: str | None
    flags: frozenset[str] = field(default_factory=frozenset)
    rtol: float = 0.0
    atol: float = 0.0

    def __str__(self) -> str:
        return self.name

    def assert_outputs(self, actual: Any) -> None:
        """Assert that a result has the recorded structure, shapes, data types and values."""
        self._assert_same(actual, self.outputs, "the result")

    def _assert_same(self, actual: Any, expected: Any, where: str) -> None:
        if isinstance(expected, Constructed):
            assert isinstance(actual, ADT) and actual.tag == expected.tag, where
            self._assert_same(tuple(actual), expected.fields, where)
            return
        if isinstance(expected, tuple):
            assert isinstance(actual, tuple) and len(actual) == len(expected), where
            for position, (a, e) in enumerate(zip(actual, expected, strict=True)):
                self._assert_same(a, e, f"{where}[{position}]")
            return
        value, prefix = np.asarray(actual.numpy()), slice(None)
        if isinstance(expected, DefinedPrefix):
            expected, prefix = expected.array, slice(expected.length)
        expected = np.asarray(expected)
        assert value.shape == expected.shape, where
        value, expected = (value[prefix], expected[prefix]) if value.ndim else (value, expected)
        if expected.dtype == np.uint16 and str(actual.dtype) == "bfloat16":
            expected = (expected.astype("uint32") << 16).view("float32")
        else:
            assert value.dtype == expected.dtype, where
        rtol, atol = _TOLERANCES.get(str(actual.dtype), (0.0, 0.0))
        if rtol:
            rtol, atol = max(rtol, min(self.rtol, 1e-2)), max(atol, min(self.atol, 1e-2))
        np.testing.assert_allclose(
            value.astype("float64"), expected.astype("float64"), rtol=rtol, atol=atol, err_msg=where
        )


def selected() -> list[GoldenProgram]:
    """Return the programs that lie in this repository."""
    with zipfile.ZipFile(PROGRAMS) as archive:
        folders = sorted({name.rsplit("/", 1)[0] for name in archive.namelist()})
        return [_read(lambda file, at=folder: archive.read(f"{at}/{file}")) for folder in folders]


def collected(part: slice = slice(None)) -> Iterator[GoldenProgram]:
    """Yield the programs of the whole collection, or of a part of it, where it lies beside the repository."""
    for meta in sorted(COLLECTION.glob("*/*/*/meta.json"))[part]:
        yield _read(lambda file, at=meta.parent: (at / file).read_bytes())


def _read(read: Callable[[str], bytes]) -> GoldenProgram:
    meta = json.loads(read("meta.json"))
    with np.load(io.BytesIO(read("io.npz"))) as arrays:
        inputs = [_given(_value(d, arrays)) for d in meta["inputs"] or []]
        outputs = None if meta["outputs"] is None else _value(meta["outputs"], arrays)
    tolerance = meta.get("test_tolerance") or {}
    return GoldenProgram(
        name=meta["id"],
        text=read("program.relay").decode(),
        json=_document(read),
        operators=tuple(meta["ops"]),
        inputs=inputs,
        outputs=outputs,
        error=None if meta["error"] is None else meta["error"]["type"],
        flags=frozenset(meta["flags"]),
        rtol=tolerance.get("rtol", 0.0),
        atol=tolerance.get("atol", 0.0),
    )


def _document(read: Callable[[str], bytes]) -> str:
    try:
        return read("program.json").decode()
    except (FileNotFoundError, KeyError):
        return gzip.decompress(read("program.json.gz")).decode()


def _given(value: Any) -> Any:
    """Return a recorded value as a program takes it."""
    if isinstance(value, Constructed):
        return ADT(value.tag, [_given(f) for f in value.fields])
    return tuple(map(_given, value)) if isinstance(value, tuple) else value


def _value(description: dict[str, Any], arrays: Any) -> Any:
    match description["k"]:
        case "tensor":
            array = arrays[description["name"]]
            return DefinedPrefix(array, description["valid_prefix"]) if "valid_prefix" in description else array
        case "tuple":
            return tuple(_value(f, arrays) for f in description["fields"])
        case "py" | "str":
            return description["value"]
        case "ctor":
            return Constructed(description["tag"], tuple(_value(f, arrays) for f in description["fields"]))
    raise ValueError(f"a value of kind {description['k']!r} is not known")
