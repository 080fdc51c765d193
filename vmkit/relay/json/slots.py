"""Fields of nodes: how a value stands in a field, and what it must be."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import tvm
import tvm_ffi

from ..._dataclasses import dataclass
from ...errors import ModelError
from ...values.dltensor import read_dltensor

if TYPE_CHECKING:
    from .reader import NodeReader
    from .writer import NodeWriter

__all__ = [
    "BOOL",
    "DTYPE",
    "INT",
    "STRING",
    "TENSOR",
    "Item",
    "MapOf",
    "Plain",
    "Ref",
    "Slot",
    "String",
    "decoded_tensor",
    "int64",
    "many",
]

Item: TypeAlias = "tvm_ffi.Object | str | int | float | Sequence[Item] | Mapping[Any, Any] | None"
"""What a node of a document can stand for."""

_DTYPE_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class Slot(Protocol):
    """One field of a kind of node."""

    @property
    def optional(self) -> bool:
        """Whether a node may lack the field."""

    def refers(self, text: str, reader: NodeReader) -> bool:
        """Say whether the field's text is the index of another node."""

    def read(self, text: str, reader: NodeReader) -> Item:
        """Return the field's value; nodes that it refers to have been made. ModelError when it must not be that."""

    def write(self, value: Item, writer: NodeWriter) -> str:
        """Return the field's text."""


@dataclass(frozen=True)
class Plain:
    """A value that stands in the field itself."""

    parse: Callable[[str], Item]
    text: Callable[[Any], str] = str
    optional: bool = False

    def refers(self, text: str, reader: NodeReader) -> bool:
        return False

    def read(self, text: str, reader: NodeReader) -> Item:
        return self.parse(text)

    def write(self, value: Item, writer: NodeWriter) -> str:
        return self.text(value)


@dataclass(frozen=True)
class Ref:
    """The index of a node of given classes; with `is_array`, of an array of such nodes."""

    what: str
    classes: tuple[type, ...]
    optional: bool = False
    is_array: bool = False

    def refers(self, text: str, reader: NodeReader) -> bool:
        return True

    def read(self, text: str, reader: NodeReader) -> Item:
        value = reader.made(text)
        if self.is_array:
            return self._array(value)
        if not isinstance(value, self.classes) and not (value is None and self.optional):
            raise ModelError(f"is {_described(value)}, expected {self.what}")
        return value

    def _array(self, value: Item) -> list[Item]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise ModelError(f"is {_described(value)}, expected an array")
        for position, element in enumerate(value):
            if not isinstance(element, self.classes):
                raise ModelError(f"has {_described(element)} at {position}, expected {self.what}")
        return value

    def write(self, value: Item, writer: NodeWriter) -> str:
        return str(writer.index(list(cast("Sequence[Item]", value)) if self.is_array else value))


def many(slot: Ref) -> Ref:
    """Return the slot of an array of what a slot takes; the null stands for an array of none."""
    return Ref(slot.what, slot.classes, optional=True, is_array=True)


@dataclass(frozen=True)
class MapOf:
    """The index of a map from and to nodes of given classes."""

    what: str
    keys: type
    values: type
    optional: bool = False

    def refers(self, text: str, reader: NodeReader) -> bool:
        return True

    def read(self, text: str, reader: NodeReader) -> Item:
        value = reader.made(text)
        if value is None and self.optional:
            return {}
        if not isinstance(value, dict):
            raise ModelError(f"is {_described(value)}, expected a map")
        for key, entry in value.items():
            if not isinstance(key, self.keys) or not isinstance(entry, self.values):
                raise ModelError(f"maps {_described(key)} to {_described(entry)}, expected {self.what}")
        return value

    def write(self, value: Item, writer: NodeWriter) -> str:
        return str(writer.index(value))


@dataclass(frozen=True)
class String:
    """A string: a node of its own since TVM 0.7, before that in place."""

    optional: bool = False

    def refers(self, text: str, reader: NodeReader) -> bool:
        return not reader.is_older_than(0, 7)

    def read(self, text: str, reader: NodeReader) -> Item:
        value = reader.made(text) if self.refers(text, reader) else text
        if not isinstance(value, str):
            raise ModelError(f"is {_described(value)}, expected a string")
        return value

    def write(self, value: Item, writer: NodeWriter) -> str:
        return str(writer.index(str(value)))


@dataclass(frozen=True)
class _Tensor:
    """The index of one of the tensors beside the nodes."""

    optional: bool = False

    def refers(self, text: str, reader: NodeReader) -> bool:
        return False

    def read(self, text: str, reader: NodeReader) -> Item:
        return reader.tensor(int64(text))

    def write(self, value: Item, writer: NodeWriter) -> str:
        return str(writer.tensor(cast("tvm.runtime.Tensor", value)))


def _described(value: Item) -> str:
    return "null" if value is None else f"a {type(value).__name__}"


def int64(text: str | int) -> int:
    """Return an integer of 64 bits; ModelError when the text is none."""
    try:
        value = int(text)
    except (TypeError, ValueError):
        raise ModelError(f"is {str(text)[:40]!r}, expected an integer") from None
    if not -(1 << 63) <= value < 1 << 63:
        raise ModelError(f"is {str(text)[:40]}, which is no integer of 64 bits")
    return value


def _dtype(text: str) -> str:
    if text == "string":
        return text
    try:
        name = str(tvm_ffi.dtype(text)) if _DTYPE_NAME.match(text) else ""
    except (TypeError, ValueError):
        name = ""
    if not name:
        raise ModelError(f"is {str(text)[:40]!r}, expected a data type")
    return "bool" if name == "uint1" else name


def decoded_tensor(text: str) -> tvm.runtime.Tensor:
    """Return a tensor from its bytes in base64."""
    try:
        return read_dltensor(base64.b64decode(text, validate=True))
    except (binascii.Error, TypeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"a tensor is not base64: {error}") from None


INT = Plain(int64)
BOOL = Plain(lambda text: bool(int64(text)), lambda value: str(int(value)))
DTYPE = Plain(_dtype)
STRING = String()
TENSOR = _Tensor()
