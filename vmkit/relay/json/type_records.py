"""Types and definitions of data types in TVM's JSON: one row a kind of node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm

from ...errors import ModelError
from ..ir import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    MapType,
    OptionalType,
    RefType,
    SequenceType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
    UnrankedType,
)
from .record import CONSTRUCTOR, TYPE, TYPE_NAME, TYPE_VAR, Record
from .slots import BOOL, DTYPE, INT, STRING, Item, Ref, many

if TYPE_CHECKING:
    from .writer import NodeWriter

__all__ = ["TYPE_RECORDS"]

_SIZES = Ref("a size", (int, tvm.ir.Expr), is_array=True)
# TVM 0.14 had room for a place of each.
_NO_SPAN = {"span": "0"}


def _func_type(
    arg_types: list[Type], ret_type: Type, type_params: list[TypeVar], type_constraints: list[Item]
) -> FuncType:
    if type_constraints:
        raise ModelError("has type relations, which only the types of operators have")
    return FuncType(arg_types, ret_type, type_params)


class _NoneWritten(Ref):
    def write(self, value: Item, writer: NodeWriter) -> str:
        return str(writer.index([]))


TYPE_RECORDS: dict[str, Record[Any]] = {
    "relay.TensorType": Record(TensorType, {"shape": _SIZES, "dtype": DTYPE}, also_written=_NO_SPAN),
    "TupleType": Record(TupleType, {"fields": many(TYPE)}, also_written=_NO_SPAN),
    "FuncType": Record(
        FuncType,
        {
            "arg_types": many(TYPE),
            "ret_type": TYPE,
            "type_params": many(TYPE_VAR),
            "type_constraints": _NoneWritten("a relation", (object,), optional=True, is_array=True),
        },
        make_from=_func_type,
        attributes={"type_constraints": "type_params"},
        also_written=_NO_SPAN,
    ),
    "TypeVar": Record(TypeVar, {"name_hint": STRING, "kind": INT}, also_written=_NO_SPAN),
    "GlobalTypeVar": Record(GlobalTypeVar, {"name_hint": STRING, "kind": INT}),
    "TypeCall": Record(TypeCall, {"func": TYPE, "args": many(TYPE)}, also_written=_NO_SPAN),
    "relay.RefType": Record(RefType, {"value": TYPE}, also_written=_NO_SPAN),
    "relay.SequenceType": Record(SequenceType, {"element": TYPE}),
    "relay.OptionalType": Record(OptionalType, {"element": TYPE}),
    "relay.MapType": Record(MapType, {"keys": TYPE, "values": TYPE}),
    "relay.UnrankedType": Record(UnrankedType, {"dtype": DTYPE, "is_empty": BOOL, "alternatives": many(TYPE)}),
    "IncompleteType": Record(IncompleteType, {"kind": INT}, also_written=_NO_SPAN),
    "relay.TypeData": Record(
        TypeData,
        {"header": TYPE_NAME, "type_vars": many(TYPE_VAR), "constructors": many(CONSTRUCTOR)},
        also_written=_NO_SPAN,
    ),
}
