"""The signatures of a module's functions: what they take and give, with dimensions named."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import singledispatch
from types import MappingProxyType

import tvm
from tvm import relax

from ..values.kinds import (
    AnySpec,
    DataSpec,
    MapSpec,
    OptionalSpec,
    SequenceSpec,
    Spec,
    TensorSpec,
    TupleSpec,
    UnrankedSpec,
)
from ..values.signature import Signature
from .ir.adt import TypeData
from .ir.definitions import type_definitions
from .ir.types import (
    Dim,
    FuncType,
    MapType,
    OptionalType,
    RefType,
    SequenceType,
    TensorType,
    TupleType,
    Type,
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
    params: list[tuple[str, Type]],
    result: Type,
    attrs: tvm.ir.DictAttrs | None,
    definitions: Mapping[str, TypeData] = MappingProxyType({}),
) -> Signature:
    is_tuple = isinstance(result, TupleType)
    fields = list(result.fields) if is_tuple else [result]
    given = [str(n) for n in attrs[OUTPUT_NAMES]] if attrs is not None and OUTPUT_NAMES in attrs else []
    names = given if len(given) == len(fields) else [""] * len(fields)
    taken = _distinct([n for n, _ in params])
    return Signature(
        name=name,
        inputs=tuple(_spec(ty, n, definitions) for n, (_, ty) in zip(taken, params, strict=True)),
        outputs=tuple(_spec(ty, n, definitions) for n, ty in zip(names, fields, strict=True)),
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


# A kind of value is one class in vmkit.values.kinds; which type stands for it is said here, one function a type.
@singledispatch
def _spec(ty: Type, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    return AnySpec(name)


@_spec.register(TensorType)
def _tensor(ty: TensorType, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    return TensorSpec(name, ty.dtype, tuple(_dim(d) for d in ty.shape))


@_spec.register(relax.TensorType)
def _relax_tensor(ty: relax.TensorType, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    if ty.ndim < 0 or not ty.dtype:
        return AnySpec(name)
    shape = ty.shape if ty.shape is not None else [None] * ty.ndim
    return TensorSpec(name, str(ty.dtype), tuple(_dim(d) for d in shape))


@_spec.register(TupleType)
def _tuple(ty: TupleType, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    return TupleSpec(name, tuple(_spec(field, "", definitions) for field in ty.fields))


@_spec.register(SequenceType)
def _sequence(ty: SequenceType, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    return SequenceSpec(name, _spec(ty.element, "", definitions))


@_spec.register(OptionalType)
def _optional(ty: OptionalType, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    return OptionalSpec(name, _spec(ty.element, "", definitions))


@_spec.register(MapType)
def _map(ty: MapType, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    return MapSpec(name, ty.keys.dtype, ty.values.dtype, is_list=len(ty.values.shape) == 2)


@_spec.register(UnrankedType)
def _unranked(ty: UnrankedType, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    return UnrankedSpec(name, ty.dtype, tuple(tuple(_dim(d) for d in way.shape) for way in ty.alternatives))


@_spec.register(TypeCall)
def _data(ty: TypeCall, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    made = tuple((c.tag, c.name_hint, len(c.inputs)) for c in definitions[ty.func.name_hint].constructors)
    return DataSpec(name, type_text(ty), made)


@_spec.register(FuncType)
@_spec.register(RefType)
@_spec.register(TypeVar)
def _named(ty: FuncType | RefType | TypeVar, name: str, definitions: Mapping[str, TypeData]) -> Spec:
    return AnySpec(name, type_text(ty))


def _dim(dim: Dim | None) -> int | str:
    if isinstance(dim, tvm.tirx.IntImm):
        return int(dim.value)
    return dim if isinstance(dim, int) else "?" if dim is None else dim_text(dim)
