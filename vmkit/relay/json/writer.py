"""Write objects as nodes of a document, each once, without recursion."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, cast

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import DictAttrs, Op, SourceName

from ..._dataclasses import dataclass
from ...errors import ModelError
from ...values.dltensor import write_dltensor
from ..ir import Any as AnyDim
from ..ir import Call
from ..op.attrs import Attrs
from .attrs import FIELDS_OF_OPERATORS, REPEATED_INPUTS, write_attrs
from .records import RECORDS
from .sizes import SIZE_KEYS, write_size
from .slots import Item

__all__ = ["NodeWriter", "type_key"]

_VERSION = "0.14.0"
_RECORD_KEYS: dict[type, str] = {row.cls: key for key, row in RECORDS.items()}
del _RECORD_KEYS[str]
_CONTAINERS = (tvm_ffi.Array, tvm_ffi.Map)


@dataclass(frozen=True)
class _Raw:
    """A node that stands for no object."""

    key: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class _CallAttrs:
    """Attributes that depend on their call."""

    attrs: Attrs
    inputs: Sequence[Any]
    operator: str


class NodeWriter:
    """Writes objects as nodes of a document. An object is written once, however often it is referred to."""

    def __init__(self) -> None:
        self.global_types: dict[str, Any] = {}
        self._nodes: list[Any] = [{"type_key": ""}]
        self._tensors: list[str] = []
        self._indices: dict[int, int] = {}
        self._tensor_indices: dict[int, int] = {}
        # Objects are told apart by their address, so they must live until the document is done.
        self._kept: list[Any] = []
        self._waiting: list[tuple[int, Any]] = []

    def document(self, root: Item) -> dict[str, Any]:
        """Return the document of an object and all that it refers to."""
        index = self.index(root)
        while self._waiting:
            at, value = self._waiting.pop()
            self._nodes[at] = self._node(value)
        version = {"tvm_version": _VERSION}
        return {"root": index, "nodes": self._nodes, "b64ndarrays": self._tensors, "attrs": version}

    def index(self, value: Item) -> int:
        """Return the index of an object's node, which is written later if it is new."""
        if value is None:
            return 0
        if not isinstance(value, tvm_ffi.Object) or isinstance(value, _CONTAINERS):
            return self._new(value)
        address = value.__chandle__()
        if address not in self._indices:
            self._kept.append(value)
            self._indices[address] = self._new(value)
        return self._indices[address]

    def raw_index(self, key: str, fields: Mapping[str, str]) -> str:
        """Return the index of a new node that stands for no object, as text."""
        return str(self._new(_Raw(key, fields)))

    def attrs_index(self, call: Call) -> int:
        """Return the index of the attributes of a call."""
        operator = call.op.name if isinstance(call.op, Op) else ""
        if type(call.attrs).type_key in REPEATED_INPUTS or operator in FIELDS_OF_OPERATORS:
            return self._new(_CallAttrs(call.attrs, list(call.args), operator))
        return self.index(call.attrs)

    def tensor(self, value: tvm.runtime.Tensor) -> int:
        """Return the index of a tensor beside the nodes."""
        address = value.__chandle__()
        if address not in self._tensor_indices:
            self._kept.append(value)
            self._tensors.append(_encoded(value))
            self._tensor_indices[address] = len(self._tensors) - 1
        return self._tensor_indices[address]

    def _new(self, value: Item | _Raw | _CallAttrs) -> int:
        self._nodes.append(None)
        self._waiting.append((len(self._nodes) - 1, value))
        return len(self._nodes) - 1

    def _node(self, value: Item | _Raw | _CallAttrs) -> dict[str, Any]:
        if isinstance(value, _Raw):
            return {"type_key": value.key, "attrs": dict(value.fields)}
        if isinstance(value, _CallAttrs):
            fields = write_attrs(value.attrs, self.index, value.inputs, value.operator)
            return {"type_key": type_key(value.attrs), "attrs": fields}
        key = type_key(value)
        match key:
            case "runtime.String" | "Op" | "SourceName" | "runtime.NDArray":
                text = _representation(cast("tvm.runtime.Tensor | str | Op | SourceName", value))
                return {"type_key": key, "repr_str": text} if text else {"type_key": key}
            case "Array":
                data = [self.index(v) for v in cast("Sequence[Item]", value)]
                return {"type_key": key, "data": data} if data else {"type_key": key}
            case "Map":
                return self._map(cast("Mapping[Item, Item]", value))
        return {"type_key": key, "attrs": dict(sorted(self._fields(key, value).items()))}

    def _map(self, value: Mapping[Item, Item]) -> dict[str, Any]:
        items = list(value.items())
        if not items:
            return {"type_key": "Map"}
        if all(isinstance(k, str) for k, _ in items):
            return {"type_key": "Map", "keys": [str(k) for k, _ in items], "data": [self.index(v) for _, v in items]}
        return {"type_key": "Map", "data": [self.index(part) for item in items for part in item]}

    def _fields(self, key: str, value: Item) -> dict[str, str]:
        if key in RECORDS:
            return RECORDS[key].write(value, self)
        if isinstance(value, Attrs):
            return write_attrs(value, self.index)
        match value:
            case DictAttrs():
                return {"__dict__": str(self.index(dict(value.items())))}
            case bool() | int():
                return {"dtype": _integer_dtype(value), "span": "0", "value": str(int(value))}
            case float():
                return {"dtype": "float32", "span": "0", "value": format(value, ".17g")}
            case tirx.IntImm():
                return {"dtype": str(value.ty.dtype), "span": "0", "value": str(int(value.value))}
            case tirx.FloatImm():
                return {"dtype": str(value.ty.dtype), "span": "0", "value": format(value.value, ".17g")}
        return write_size(cast("tvm.ir.Expr", value), self)


def _encoded(tensor: tvm.runtime.Tensor) -> str:
    return base64.b64encode(write_dltensor(tensor)).decode("ascii")


def _representation(value: tvm.runtime.Tensor | str | Op | SourceName) -> str:
    return _encoded(value) if isinstance(value, tvm.runtime.Tensor) else value if isinstance(value, str) else value.name


def _integer_dtype(value: int) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int32" if -(1 << 31) <= value < 1 << 31 else "int64"


def type_key(value: Item) -> str:
    """Return the type key under which an object is written.

    Raises
    ------
    ModelError
        When objects of its class cannot be written.
    """
    found = _RECORD_KEYS.get(type(value)) or SIZE_KEYS.get(type(value))
    if found is not None:
        return found
    match value:
        case str():
            return "runtime.String"
        case bool() | int() | tirx.IntImm():
            return "IntImm"
        case float() | tirx.FloatImm():
            return "FloatImm"
        case list() | tuple() | tvm_ffi.Array():
            return "Array"
        case dict() | tvm_ffi.Map():
            return "Map"
        case tvm.runtime.Tensor():
            return "runtime.NDArray"
        case DictAttrs():
            return "DictAttrs"
        case Op():
            return "Op"
        case SourceName():
            return "SourceName"
        case AnyDim():
            return "tir.Any"
        case tvm.ir.Var():
            return "tir.Var"
        case Attrs():
            return type(value).type_key
    raise ModelError(f"objects of {type(value).__name__} cannot be written as TVM's JSON")
