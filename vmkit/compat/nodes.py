"""Attributes of nodes that scripts read and that Relay's nodes have no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm

from vmkit.errors import UnavailableError
from vmkit.relay import ir
from vmkit.relay.op.attrs import Attrs
from vmkit.relay.text import astext
from vmkit.relay.text.parser import VERSION
from vmkit.target.device_types import device_name

__all__ = ["FuncType", "install_node_attributes", "node_astext"]


class _Size(int):
    """A known dimension; Relay's was a node with the number as its ``value``."""

    @property
    def value(self) -> int:
        return int(self)

    @property
    def dtype(self) -> str:
        return "int32"


class _KindsOfFuncType(type):
    kinds = (ir.FuncType, tvm.ir.FuncType)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.kinds)

    def __call__(cls, *args: Any, **kwargs: Any) -> ir.FuncType:
        return ir.FuncType(*args, **kwargs)


class FuncType(metaclass=_KindsOfFuncType):
    """Makes the type of a function of Relay's; ``isinstance`` also knows TVM's own, which has no type parameters."""


_own_shape = vars(ir.TensorType)["shape"]
_own_tuple_text = ir.TupleType.__str__
_RELAY_TYPES = (ir.TensorType, ir.FuncType, ir.TypeVar, ir.TypeCall, ir.RefType, ir.GlobalTypeVar, ir.IncompleteType)


def install_node_attributes() -> None:
    """Let nodes print themselves by ``astext``, dimensions have a ``value`` and variables a ``vid``, attributes
    be read by name, tuple types print, and scripts say that a node is on the CPU."""
    tensor_type: Any = ir.TensorType
    tensor_type.shape = property(_shape)
    variable: Any = ir.Var
    # The identity of a variable is now the node itself.
    variable.vid = property(lambda self: self)
    for expression in (ir.Expr, ir.Function):
        placed: Any = expression
        placed.virtual_device_ = property(_no_place, _set_place)
    for kind in (ir.Expr, ir.Function, ir.GlobalVar, ir.Op, ir.TupleType, *_RELAY_TYPES):
        printed: Any = kind
        printed.astext = node_astext
    attrs: Any = Attrs
    attrs.keys = lambda self: [field.name for field in self.declared]
    attrs.get_int = lambda self, name: int(self[name])
    attrs.get_str = lambda self, name: str(self[name])
    attrs.get_int_tuple = lambda self, name: tuple(int(value) for value in self[name])
    attrs.__getitem__ = _attribute
    tuple_type: Any = ir.TupleType
    tuple_type.__str__ = _tuple_text


def _no_place(self: ir.RelayExpr) -> ir.VirtualDevice:
    """Return that a node has no place of its own."""
    return ir.VirtualDevice(-1, -1)


def _set_place(self: ir.RelayExpr, place: tvm.runtime.Device | ir.VirtualDevice | None) -> None:
    """Take the CPU as the place of a node, which it is anyway."""
    found = ir.VirtualDevice.of(place) if isinstance(place, tvm.runtime.Device) else place
    if found is not None and found.is_constrained and device_name(found.device_type) != "cpu":
        raise UnavailableError(
            f"nodes have no place, so this one cannot be on {found}; relay.annotation.on_device says where an "
            "expression is computed"
        )


def _shape(self: ir.TensorType) -> tuple[ir.Dim, ...]:
    return tuple([_Size(d) if type(d) is int else d for d in _own_shape.__get__(self)])


def node_astext(
    node: ir.RelayExpr | tvm.IRModule | tvm.ir.Type,
    show_meta_data: bool = True,
    annotate: Callable[..., str] | None = None,
) -> str:
    """Return the text of a module, an expression or a type, with the header."""
    if isinstance(node, tvm.ir.Type):
        return f'#[version = "{VERSION}"]\n{node}'
    return astext(node, show_meta_data, annotate)


def _attribute(self: Attrs, name: str) -> Any:
    if name not in [field.name for field in self.declared]:
        raise KeyError(name)
    return getattr(self, name)


def _tuple_text(self: ir.TupleType) -> str:
    return ir.type_text(self) if _is_relay(self) else _own_tuple_text(self)


def _is_relay(ty: ir.Type) -> bool:
    return all(map(_is_relay, ty.fields)) if isinstance(ty, ir.TupleType) else isinstance(ty, _RELAY_TYPES)
