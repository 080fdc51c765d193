"""Kinds: what types and their parts range over."""

from __future__ import annotations

from collections.abc import Iterable

import tvm

from ...errors import TypeCheckError
from ..ir import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    MapType,
    OptionalType,
    RefType,
    SequenceType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeRelation,
    TypeVar,
    UnrankedType,
    find_type,
    type_text,
)

__all__ = ["check_kind"]

_NAMES = {value: name for name, value in vars(Kind).items() if not name.startswith("_")}


def check_kind(t: Type | TypeData, mod: tvm.IRModule | None = None) -> int:
    """Return the kind of a type, one of ``relay.Kind``.

    Parameters
    ----------
    t : Type or TypeData
        The type.
    mod : tvm.IRModule, optional
        The module that defines the data types used.

    Raises
    ------
    TypeCheckError
        When a part of the type has another kind than its place asks for, such as a tuple of shapes.
    ModelError
        When the module does not define a data type.
    """
    match t:
        case TensorType() | UnrankedType():
            return Kind.Type
        case TypeVar() | IncompleteType() | GlobalTypeVar():
            return t.kind
        case TupleType():
            _require_types(t, t.fields, mod)
        case FuncType():
            _require_types(t, [*t.arg_types, t.ret_type], mod)
            for constraint in t.type_constraints:
                _require(Kind.Constraint, "Constraint", t, constraint, mod)
        case RefType():
            _require_types(t, [t.value], mod)
        case SequenceType() | OptionalType():
            _require_types(t, [t.element], mod)
        case MapType():
            _require_types(t, [t.keys, t.values], mod)
        case TypeCall():
            _check_type_call(t, mod)
        case TypeData():
            _require_types(t.header, [part for c in t.constructors for part in c.inputs], mod)
            return Kind.TypeData
        case TypeRelation():
            _require_types(t, t.args, mod)
            return Kind.Constraint
        case _:
            raise TypeCheckError(f"{type(t).__name__} is not a Relay type")
    return Kind.Type


def _require_types(whole: Type, parts: Iterable[Type], mod: tvm.IRModule | None) -> None:
    for part in parts:
        _require(Kind.Type, "Type", whole, part, mod)


def _require(expected: int, what: str, whole: Type, part: Type, mod: tvm.IRModule | None) -> None:
    kind = check_kind(part, mod)
    if kind != expected:
        name = _NAMES.get(kind, kind)
        raise TypeCheckError(f"{type_text(whole)}: {type_text(part)} is of kind {name}, where a {what} is needed")


def _check_type_call(call: TypeCall, mod: tvm.IRModule | None) -> None:
    kind = check_kind(call.func, mod)
    if kind != Kind.AdtHandle:
        name = _NAMES.get(kind, kind)
        raise TypeCheckError(f"{type_text(call)}: {type_text(call.func)} is of kind {name}, which is no data type")
    _require_types(call, call.args, mod)
    if mod is not None and isinstance(call.func, GlobalTypeVar):
        expected = len(find_type(mod, call.func).type_vars)
        if len(call.args) != expected:
            raise TypeCheckError(f"{call.func.name_hint} takes {expected} type arguments, got {len(call.args)}")
