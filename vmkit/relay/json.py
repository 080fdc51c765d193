"""The JSON of TVM releases that had Relay (``tvm.ir.save_json`` up to 0.19), read and written.

A document is a list of nodes. A node has a type key and named fields as strings; a field that refers to another node
holds its index. Node 0 is the null. Tensors stand beside the nodes in base64.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from ..errors import ModelError, VMKitError
from .dltensor import read_dltensor, write_dltensor
from .ir import Any as AnyDim
from .ir import Constant, FuncType, IncompleteType, TensorType, TupleType, TypeVar, Var, VirtualDevice, dims
from .json_attrs import attrs_references, read_attrs, write_attrs
from .op.attrs import Attrs

__all__ = ["NodeReader", "NodeWriter", "type_key"]

Node = Mapping[str, Any]
Get = Callable[[str], Any]

_TVM_VERSION = "0.14.0"


@dataclass(frozen=True)
class _Format:
    """How nodes of one type key are read: which fields refer to nodes, and what the node becomes."""

    references: tuple[str, ...]
    make: Callable[[Node, Get], Any]


def _fields(*references: str, make: Callable[..., Any]) -> _Format:
    return _Format(references, lambda node, get: make(*(get(node["attrs"][name]) for name in references)))


def _operation(compute: Callable[[Any, Any], Any]) -> _Format:
    return _fields("a", "b", make=compute)


def _integer(node: Node, get: Get) -> Any:
    value = int(node["attrs"]["value"])
    return bool(value) if node["attrs"]["dtype"] == "bool" else value


def _virtual_device(node: Node, get: Get) -> VirtualDevice:
    attrs = node["attrs"]
    if get(attrs["target"]) is not None:
        raise ModelError("a VirtualDevice with a target of its own is not supported; the compiler is given the target")
    return VirtualDevice(int(attrs["device_type_int"]), int(attrs["virtual_device_id"]), get(attrs["memory_scope"]))


# Symbolic sizes were int32 or int64; they are int64 here. A size that went through floats is unknown until run time.
_FORMATS: dict[str, _Format] = {
    "": _Format((), lambda node, get: None),
    "IntImm": _Format((), _integer),
    "FloatImm": _Format((), lambda node, get: float(node["attrs"]["value"])),
    "tir.Any": _Format((), lambda node, get: AnyDim()),
    "tir.Var": _fields("name", make=lambda name: tirx.Var(name, "int64")),
    "tir.SizeVar": _fields("name", make=lambda name: tirx.Var(name, "int64")),
    "tir.Add": _operation(dims.add),
    "tir.Sub": _operation(dims.sub),
    "tir.Mul": _operation(dims.mul),
    "tir.FloorDiv": _operation(dims.floordiv),
    "tir.Div": _operation(dims.floordiv),
    "tir.Max": _operation(dims.maximum),
    "tir.Min": _operation(dims.minimum),
    "tir.Cast": _Format((), lambda node, get: AnyDim()),
    "relay.TensorType": _Format(
        ("shape",), lambda node, get: TensorType(get(node["attrs"]["shape"]), _dtype(node["attrs"]["dtype"]))
    ),
    "TupleType": _fields("fields", make=TupleType),
    "FuncType": _fields("arg_types", "ret_type", "type_params", make=FuncType),
    "TypeVar": _Format(
        ("name_hint",), lambda node, get: TypeVar(get(node["attrs"]["name_hint"]), int(node["attrs"]["kind"]))
    ),
    "IncompleteType": _Format((), lambda node, get: IncompleteType(int(node["attrs"]["kind"]))),
    "relay.Id": _fields("name_hint", make=lambda name: name),
    "VirtualDevice": _Format(("target", "memory_scope"), _virtual_device),
    "relay.Var": _fields("vid", "type_annotation", make=Var),
}


def _dtype(name: str) -> str:
    return "bool" if name == "uint1" else name


class NodeReader:
    """Reads nodes of a document; each becomes one object, however often it is referred to.

    Parameters
    ----------
    document : mapping
        What ``json.loads`` gives.
    """

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise ModelError("a document of TVM's JSON is an object with a list of 'nodes'")
        self.nodes: list[Any] = document["nodes"]
        self.root: Any = document.get("root")
        self._tensors: list[Any] = document.get("b64ndarrays") or []
        self._made: dict[int, Any] = {0: None}

    def index_table(self) -> dict[str, list[int]]:
        """Return the indices of the nodes of a metadata document, by key."""
        try:
            table = self.nodes[self.root]
            keys, lists = table.get("keys", []), table.get("data", [])
            return {key: list(self.nodes[index].get("data", [])) for key, index in zip(keys, lists, strict=True)}
        except (TypeError, IndexError, AttributeError, ValueError) as error:
            raise ModelError(f"the root is not a map of lists ({error})") from None

    def read(self, index: int) -> Any:
        """Return the object that a node stands for.

        Raises
        ------
        ModelError
            When the node, or one it refers to, is malformed or of a kind that is not known.
        """
        stack, entered = [index], set()
        while stack:
            current = stack[-1]
            if current in self._made:
                stack.pop()
                continue
            waiting = [i for i in self._references(current) if i not in self._made]
            if waiting and current in entered:
                raise ModelError(f"node {current} refers to itself")
            entered.add(current)
            if waiting:
                stack += waiting
            else:
                self._made[stack.pop()] = self._guarded(current, self._make)
        return self._made[index]

    def _guarded(self, index: int, step: Callable[[Node], Any]) -> Any:
        try:
            node = self.nodes[index] if index >= 0 else None
            if not isinstance(node, dict):
                raise ModelError(f"there is no node {index}")
            return step(node)
        except ModelError:
            raise
        except (VMKitError, KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise ModelError(f"node {index} is malformed: {type(error).__name__}: {error}") from None

    def _references(self, index: int) -> list[int]:
        return self._guarded(index, lambda node: [int(i) for i in self._reference_fields(node)])

    def _reference_fields(self, node: Node) -> Iterable[Any]:
        key = node["type_key"]
        if key in ("Array", "Map"):
            return node.get("data", ())
        if key in ("runtime.String", "relay.Constant"):
            return ()
        if key in _FORMATS:
            return (node["attrs"][name] for name in _FORMATS[key].references)
        if key.startswith("relay.attrs."):
            return attrs_references(node, self._is_string)
        raise ModelError(f"nodes of kind {key!r} are not supported")

    def _is_string(self, index: int) -> bool:
        return index < len(self.nodes) and self.nodes[index].get("type_key") == "runtime.String"

    def _get(self, index: Any) -> Any:
        return self._made[int(index)]

    def _make(self, node: Node) -> Any:
        key, data = node["type_key"], node.get("data", ())
        if key == "runtime.String":
            return _string(node)
        if key == "relay.Constant":
            return Constant(self._tensor(int(node["attrs"]["data"])))
        if key == "Array":
            return [self._get(i) for i in data]
        if key == "Map":
            values = [self._get(i) for i in data]
            return (
                dict(zip(node["keys"], values, strict=True))
                if "keys" in node
                else dict(zip(values[::2], values[1::2], strict=True))
            )
        if key in _FORMATS:
            return _FORMATS[key].make(node, self._get)
        return read_attrs(node, self._get, self._is_string)

    def _tensor(self, index: int) -> Any:
        try:
            return read_dltensor(base64.b64decode(self._tensors[index], validate=True))
        except (binascii.Error, TypeError) as error:
            raise ModelError(f"tensor {index} is not base64: {error}") from None


def _string(node: Node) -> str:
    if "repr_b64" in node:
        return base64.b64decode(node["repr_b64"]).decode("utf-8")
    return node.get("repr_str", "")


class NodeWriter:
    """Writes objects as nodes of a document. An object is written once, however often it is referred to."""

    def __init__(self) -> None:
        self._nodes: list[Any] = [{"type_key": ""}]
        self._tensors: list[str] = []
        self._indices: dict[Any, int] = {}
        self._waiting: list[tuple[int, Any]] = []

    def document(self, root: Any) -> dict[str, Any]:
        """Return the document of an object and all that it refers to."""
        index = self.index(root)
        while self._waiting:
            at, value = self._waiting.pop()
            self._nodes[at] = self._node(value)
        version = {"tvm_version": _TVM_VERSION}
        return {"root": index, "nodes": self._nodes, "b64ndarrays": self._tensors, "attrs": version}

    def index(self, value: Any) -> int:
        """Return the index of an object's node, which is written later if it is new."""
        if value is None:
            return 0
        shared = isinstance(value, tvm.ir.Expr | Attrs)
        if shared and value in self._indices:
            return self._indices[value]
        self._nodes.append(None)
        index = len(self._nodes) - 1
        if shared:
            self._indices[value] = index
        self._waiting.append((index, value))
        return index

    def _node(self, value: Any) -> dict[str, Any]:
        key = type_key(value)
        if key == "runtime.String":
            return {"type_key": key, "repr_str": value}
        if key == "Array":
            return {"type_key": key, "data": [self.index(v) for v in value]}
        if key == "Map":
            return {"type_key": key, "keys": list(value), "data": [self.index(v) for v in value.values()]}
        if isinstance(value, Attrs):
            return {"type_key": key, "attrs": write_attrs(value, self.index)}
        return {"type_key": key, "attrs": self._fields(value)}

    def _fields(self, value: Any) -> dict[str, str]:
        match value:
            case bool() | int():
                return {"dtype": _integer_dtype(value), "span": "0", "value": str(int(value))}
            case float():
                return {"dtype": "float32", "span": "0", "value": repr(value)}
            case tirx.IntImm():
                return {"dtype": str(value.ty.dtype), "span": "0", "value": str(int(value.value))}
            case AnyDim():
                return {"dtype": "int32", "span": "0"}
            case tvm.ir.Var():
                name = str(self.index(value.name))
                return {"dtype": "int64", "name": name, "span": "0", "type_annotation": "0"}
            case Constant():
                self._tensors.append(base64.b64encode(write_dltensor(value.data)).decode("ascii"))
                return {
                    "_checked_type_": str(self.index(value.checked_type_)),
                    "data": str(len(self._tensors) - 1),
                    "span": "0",
                    "virtual_device_": "0",
                }
            case VirtualDevice():
                return {
                    "device_type_int": str(value.device_type),
                    "memory_scope": str(self.index(value.memory_scope)),
                    "target": "0",
                    "virtual_device_id": str(value.virtual_device_id),
                }
            case TensorType():
                return {"dtype": value.dtype, "shape": str(self.index(list(value.shape))), "span": "0"}
            case _:
                operands = {"a": str(self.index(value.a)), "b": str(self.index(value.b))}
                return {**operands, "dtype": "int64", "span": "0"}


_OPERATIONS = {getattr(tirx, name): f"tir.{name}" for name in ("Add", "Sub", "Mul", "FloorDiv", "Max", "Min")}


def _integer_dtype(value: int) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int32" if -(1 << 31) <= value < 1 << 31 else "int64"


def type_key(value: Any) -> str:
    """Return the type key under which an object is written.

    Raises
    ------
    ModelError
        When objects of its class cannot be written.
    """
    match value:
        case str():
            return "runtime.String"
        case bool() | int() | tirx.IntImm():
            return "IntImm"
        case float():
            return "FloatImm"
        case list() | tuple():
            return "Array"
        case dict():
            return "Map"
        case Constant():
            return "relay.Constant"
        case VirtualDevice():
            return "VirtualDevice"
        case TensorType():
            return "relay.TensorType"
        case AnyDim():
            return "tir.Any"
        case tvm.ir.Var():
            return "tir.Var"
        case Attrs():
            return type(value).type_key
    found = _OPERATIONS.get(type(value))
    if found is None:
        raise ModelError(f"objects of {type(value).__name__} cannot be written as TVM's JSON")
    return found
