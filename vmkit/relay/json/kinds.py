"""Kinds of nodes that are no records of Relay's: the null, strings, numbers, containers, tensors."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import tvm
from tvm.ir import Op, SourceName

from ..._dataclasses import dataclass
from ...errors import ModelError, UnsupportedOperatorError, suggest
from ..op.registry import REGISTRY
from .slots import Item, decoded_tensor, int64

if TYPE_CHECKING:
    from .reader import NodeReader

__all__ = ["PLAIN_KINDS", "Kind", "Node", "fields_of", "refuse_missing_operators"]

Node = Mapping[str, Any]

# Lists inside attributes are copied where they are used; deeper ones are nothing that Relay had.
_DEEPEST_LIST = 8


class Kind(Protocol):
    """How nodes of one type key are read."""

    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        """Return the indices of the nodes that must be made before."""

    def make(self, node: Node, reader: NodeReader) -> Item:
        """Return what a node stands for."""


def fields_of(node: Node) -> Mapping[str, Any]:
    """Return the named fields of a node; ModelError when they are not text."""
    fields = node.get("attrs", {})
    if not isinstance(fields, dict):
        raise ModelError("its attrs are no object")
    for name, text in fields.items():
        if not isinstance(text, str):
            raise ModelError(f"field {name!r} is {str(text)[:40]!r}, expected text")
    return fields


@dataclass(frozen=True)
class _Leaf:
    """A node that refers to no other."""

    build: Callable[[Node, NodeReader], Any]

    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        return ()

    def make(self, node: Node, reader: NodeReader) -> Item:
        return self.build(node, reader)


class _Array:
    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        data = node.get("data", [])
        if not isinstance(data, list):
            raise ModelError("its data is no list")
        return data

    def make(self, node: Node, reader: NodeReader) -> Item:
        return self.elements(node, reader)

    def elements(self, node: Node, reader: NodeReader) -> list[Item]:
        return [reader.made(index) for index in node.get("data", [])]


class _Map(_Array):
    def make(self, node: Node, reader: NodeReader) -> Item:
        values = self.elements(node, reader)
        keys = node.get("keys")
        if keys is None:
            keys, values = values[::2], values[1::2]
        elif not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise ModelError("its keys are no strings")
        if len(keys) != len(values):
            raise ModelError(f"has {len(keys)} keys for {len(values)} values")
        try:
            made = dict(zip(keys, values, strict=True))
        except TypeError:
            raise ModelError("has a key that is a list or a map") from None
        if len(made) != len(keys):
            raise ModelError("has a key twice")
        return made


class _DictAttrs:
    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        fields = fields_of(node)
        return (fields["__dict__"],) if "__dict__" in fields else ()

    def make(self, node: Node, reader: NodeReader) -> Item:
        values: Item = {}
        for index in self.references(node, reader):
            values = reader.made(index)
        if values is None:
            values = {}
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise ModelError("field '__dict__' is no map of names")
        _require_shallow(values, _DEEPEST_LIST)
        return tvm.ir.make_node("ir.DictAttrs", **values)


def _require_shallow(value: Item, levels: int) -> None:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if parts and levels == 0:
        raise ModelError(f"holds lists nested more than {_DEEPEST_LIST} deep")
    for part in parts:
        _require_shallow(part, levels - 1)


def _string(node: Node, reader: NodeReader | None = None) -> str:
    text = base64.b64decode(node["repr_b64"]).decode("utf-8") if "repr_b64" in node else node.get("repr_str", "")
    if not isinstance(text, str):
        raise ModelError("is no text")
    return text


def _integer(node: Node, reader: NodeReader) -> int:
    fields = fields_of(node)
    value = int64(fields["value"])
    return bool(value) if fields["dtype"] in ("bool", "uint1") else value


def _operator(node: Node, reader: NodeReader) -> Op:
    name = _string(node)
    if name not in REGISTRY:
        refuse_missing_operators(reader, name)
    return Op.get(name)


def refuse_missing_operators(reader: NodeReader, *names: str) -> None:
    """Raise UnsupportedOperatorError for the operators of a document, and those named, that there are none of here."""
    missing = sorted({n for n in (*reader.operator_names(), *names) if n not in REGISTRY})
    if not missing:
        return
    known = list(REGISTRY)
    count = "an operator" if len(missing) == 1 else f"{len(missing)} operators"
    listed = [f"  {n[:80]}{suggest(n[:80], known)}" for n in missing]
    raise UnsupportedOperatorError("\n".join([f"the document uses {count} that Relay does not have here", *listed]))


def _float(text: str) -> float:
    return float.fromhex(text) if "0x" in text.lower() else float(text)


_STRING = _Leaf(_string)

PLAIN_KINDS: dict[str, Kind] = {
    "": _Leaf(lambda node, reader: None),
    "Array": _Array(),
    "DictAttrs": _DictAttrs(),
    "FloatImm": _Leaf(lambda node, reader: float(fields_of(node)["value"])),
    "IntImm": _Leaf(_integer),
    "Map": _Map(),
    "Op": _Leaf(_operator),
    "SourceName": _Leaf(lambda node, reader: SourceName(_string(node))),
    # Numbers of TVM 0.18 and later that are neither of an expression nor in place.
    "runtime.BoxBool": _Leaf(lambda node, reader: _string(node).strip().lower() in ("1", "true")),
    "runtime.BoxFloat": _Leaf(lambda node, reader: _float(_string(node))),
    "runtime.BoxInt": _Leaf(lambda node, reader: int64(_string(node))),
    "runtime.NDArray": _Leaf(lambda node, reader: decoded_tensor(_string(node))),
    "runtime.String": _STRING,
}
