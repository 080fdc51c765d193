"""The signatures of a module's functions: what they take and give, with dimensions named."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax

from ..values.signature import (
    AnySpec,
    DataSpec,
    OptionalSpec,
    SequenceSpec,
    Signature,
    TensorSpec,
    TupleSpec,
    UnrankedSpec,
)
from .ir.adt import TypeData
from .ir.definitions import type_definitions
from .ir.types import (
    FuncType,
    OptionalType,
    RefType,
    SequenceType,
    TensorType,
    TupleType,
    TypeCall,
    TypeVar,
    UnrankedType,
    dim_text,
    type_text,
)

__all__ = ["OUTPUT_NAMES", "relax_signatures", "relay_signatures"]

OUTPUT_NAMES = "output_names"  # the function attribute that names the fields of a result


def relay_signatures(mod: tvm.IRModule) -> dict[str, Signature]:
    """Return the signature of every function of a typed Relay module, by name."""
    definitions = type_definitions(mod)
    return {
        gvar.name_hint: _signature(
            gvar.name_hint,
            [(p.name_hint, p.checked_type) for p in function.params],
            function.checked_type.ret_type,
            function.attrs,
            definitions,
        )
        for gvar, function in mod.functions.items()
    }


def relax_signatures(mod: tvm.IRModule) -> dict[str, Signature]:
    """Return the signature of every public function of a Relax module, by name."""
    return {
        gvar.name_hint: _signature(
            gvar.name_hint, [(p.name, p.ty) for p in function.params], function.ret_ty, function.attrs
        )
        for gvar, function in mod.functions.items()
        if isinstance(function, relax.Function) and function.attrs and "global_symbol" in function.attrs
    }


def _signature(
    name: str,
    params: list[tuple[str, Any]],
    result: Any,
    attrs: Any,
    definitions: Mapping[str, TypeData] = MappingProxyType({}),
) -> Signature:
    is_tuple = isinstance(result, TupleType | relax.TupleType)
    fields = list(result.fields) if is_tuple else [result]
    given = [str(n) for n in attrs[OUTPUT_NAMES]] if attrs is not None and OUTPUT_NAMES in attrs else []
    names = given if len(given) == len(fields) else [""] * len(fields)
    taken = _distinct([n for n, _ in params])
    return Signature(
        name=name,
        inputs=tuple(_spec(n, ty, definitions) for n, (_, ty) in zip(taken, params, strict=True)),
        outputs=tuple(_spec(n, ty, definitions) for n, ty in zip(names, fields, strict=True)),
        result_is_tuple=is_tuple,
    )


def _distinct(names: list[str]) -> list[str]:
    """Return names that can tell parameters apart; Relay's are hints, and may be the same: a second x becomes x1."""
    distinct: list[str] = []
    for name in names:
        others = {*names, *distinct}
        free = (f"{name}{number}" for number in itertools.count(1) if f"{name}{number}" not in others)
        distinct.append(name if name not in distinct else next(free))
    return distinct


def _spec(name: str, ty: Any, definitions: Mapping[str, TypeData]) -> Any:
    if isinstance(ty, TupleType | relax.TupleType):
        return TupleSpec(name, tuple(_spec("", f, definitions) for f in ty.fields))
    if isinstance(ty, TensorType):
        return TensorSpec(name, ty.dtype, tuple(_dim(d) for d in ty.shape))
    if isinstance(ty, relax.TensorType) and ty.ndim >= 0 and ty.dtype:
        shape = ty.shape if ty.shape is not None else [None] * ty.ndim
        return TensorSpec(name, str(ty.dtype), tuple(_dim(d) for d in shape))
    if isinstance(ty, SequenceType):
        return SequenceSpec(name, _spec("", ty.element, definitions))
    if isinstance(ty, OptionalType):
        return OptionalSpec(name, _spec("", ty.element, definitions))
    if isinstance(ty, UnrankedType):
        return UnrankedSpec(name, ty.dtype)
    if isinstance(ty, TypeCall):
        data = definitions[ty.func.name_hint]
        made = tuple((c.tag, c.name_hint, len(c.inputs)) for c in data.constructors)
        return DataSpec(name, type_text(ty), made)
    return AnySpec(name, type_text(ty)) if isinstance(ty, FuncType | RefType | TypeVar) else AnySpec(name)


def _dim(dim: Any) -> int | str:
    if isinstance(dim, tvm.tirx.IntImm):
        return int(dim.value)
    return dim if isinstance(dim, int) else "?" if dim is None else dim_text(dim)
