"""Attributes of nodes that scripts read and that Relay's nodes have no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm

from vmkit.relay import ir
from vmkit.relay.op.attrs import Attrs
from vmkit.relay.text import astext
from vmkit.relay.text.parser import VERSION

__all__ = ["install_node_attributes", "node_astext"]


class _Size(int):
    """A known dimension; Relay's was a node with the number as its ``value``."""

    @property
    def value(self) -> int:
        return int(self)

    @property
    def dtype(self) -> str:
        return "int32"


_own_shape = vars(ir.TensorType)["shape"]
_own_tuple_text = ir.TupleType.__str__
_RELAY_TYPES = (ir.TensorType, ir.FuncType, ir.TypeVar, ir.TypeCall, ir.RefType, ir.GlobalTypeVar, ir.IncompleteType)


def install_node_attributes() -> None:
    """Let nodes print themselves by ``astext``, dimensions have a ``value`` and variables a ``vid``, attributes
    be read by name, and tuple types print."""
    tensor_type: Any = ir.TensorType
    tensor_type.shape = property(_shape)
    variable: Any = ir.Var
    # The identity of a variable is now the node itself.
    variable.vid = property(lambda self: self)
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
