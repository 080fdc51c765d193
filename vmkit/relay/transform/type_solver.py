"""Unification of Relay types: holes are filled, unknown dimensions agree with everything."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import (
    Any,
    Dim,
    FuncType,
    IncompleteType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    type_text,
)

__all__ = ["TypeSolver", "bind_symbols", "substitute_symbols"]


def _address(ty: Type) -> int:
    """Return what tells a type from every other; types of TVM compare by structure and do not hash."""
    return tvm_ffi.Object.__hash__(ty)


class TypeSolver:
    """Fills the holes of types so that types which must agree do.

    A hole (``IncompleteType``) is bound at most once; binding it again unifies the two. A dimension ``Any`` agrees
    with every dimension, and so does a symbol with another: what they stand for is checked at run time.
    """

    def __init__(self) -> None:
        self._bound: dict[IncompleteType, Type] = {}
        # Types without holes, by address: a type nested in another, and that in a third, is walked once.
        self._complete: dict[int, Type] = {}

    def hole(self) -> IncompleteType:
        """Return a new hole."""
        return IncompleteType()

    def resolve(self, ty: Type) -> Type:
        """Return what a type stands for at its outermost level."""
        while isinstance(ty, IncompleteType) and ty in self._bound:
            ty = self._bound[ty]
        return ty

    def apply(self, ty: Type) -> Type:
        """Return a type with every filled hole replaced, at all levels."""
        ty = self.resolve(ty)
        if not isinstance(ty, TupleType | FuncType) or _address(ty) in self._complete:
            return ty
        parts = list(ty.fields) if isinstance(ty, TupleType) else [*ty.arg_types, ty.ret_type]
        applied = [self.apply(p) for p in parts]
        if not all(a.same_as(p) for a, p in zip(applied, parts, strict=True)):
            is_tuple = isinstance(ty, TupleType)
            ty = TupleType(applied) if is_tuple else FuncType(applied[:-1], applied[-1], list(ty.type_params))
        if not any(self._may_change(a) for a in applied):
            self._complete[_address(ty)] = ty
        return ty

    def _may_change(self, ty: Type) -> bool:
        if isinstance(ty, TupleType | FuncType):
            return _address(ty) not in self._complete
        return isinstance(ty, IncompleteType)

    def is_known(self, ty: Type) -> bool:
        """Say whether no hole is left in a type."""
        ty = self.resolve(ty)
        if isinstance(ty, IncompleteType):
            return False
        if isinstance(ty, TupleType):
            return all(self.is_known(f) for f in ty.fields)
        if isinstance(ty, FuncType):
            return self.is_known(ty.ret_type) and all(self.is_known(a) for a in ty.arg_types)
        return True

    def unify(self, a: Type, b: Type, *, join: bool = False) -> Type:
        """Make two types agree and return the more general of them.

        Parameters
        ----------
        a, b : Type
            The types.
        join : bool
            Whether two different fixed dimensions give ``Any`` (the branches of an If) or an error.

        Raises
        ------
        TypeCheckError
            When no filling of the holes makes the types agree.
        """
        a, b = self.resolve(a), self.resolve(b)
        if a.same_as(b):
            return a
        if isinstance(a, IncompleteType):
            return self._bind(a, b)
        if isinstance(b, IncompleteType):
            return self._bind(b, a)
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return self._unify_tensors(a, b, join)
        if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
            return TupleType([self.unify(x, y, join=join) for x, y in zip(a.fields, b.fields, strict=True)])
        if isinstance(a, FuncType) and isinstance(b, FuncType) and len(a.arg_types) == len(b.arg_types):
            b = self._with_params_of(b, a)
            args = [self.unify(x, y, join=join) for x, y in zip(a.arg_types, b.arg_types, strict=True)]
            return FuncType(args, self.unify(a.ret_type, b.ret_type, join=join), list(a.type_params))
        if type(a) is type(b) and not isinstance(a, TypeVar | TensorType | TupleType | FuncType) and a == b:
            return a
        raise TypeCheckError(f"{type_text(self.apply(a))} does not agree with {type_text(self.apply(b))}")

    def instantiate(self, ty: FuncType, type_args: Sequence[Type] = ()) -> FuncType:
        """Return a function type with its type parameters replaced by `type_args`, or by new holes."""
        params = list(ty.type_params)
        if not params:
            return ty
        if type_args and len(type_args) != len(params):
            raise TypeCheckError(f"{ty} has {len(params)} type parameters, got {len(type_args)} type arguments")
        mapping: dict[TypeVar, Type] = dict(zip(params, type_args or [self.hole() for _ in params], strict=True))
        return FuncType([replace(a, mapping) for a in ty.arg_types], replace(ty.ret_type, mapping))

    def _with_params_of(self, ty: FuncType, other: FuncType) -> FuncType:
        if len(ty.type_params) != len(other.type_params):
            raise TypeCheckError(f"{ty} and {other} differ in their type parameters")
        mapping: dict[TypeVar, Type] = dict(zip(ty.type_params, other.type_params, strict=True))
        return FuncType([replace(a, mapping) for a in ty.arg_types], replace(ty.ret_type, mapping))

    def _bind(self, hole: IncompleteType, ty: Type) -> Type:
        if self._occurs(hole, ty):
            raise TypeCheckError(f"the type would contain itself: {type_text(self.apply(ty))}")
        self._bound[hole] = ty
        return ty

    def _occurs(self, hole: IncompleteType, ty: Type) -> bool:
        ty = self.resolve(ty)
        if isinstance(ty, IncompleteType):
            return ty.same_as(hole)
        if isinstance(ty, TupleType):
            return any(self._occurs(hole, f) for f in ty.fields)
        if isinstance(ty, FuncType):
            return self._occurs(hole, ty.ret_type) or any(self._occurs(hole, a) for a in ty.arg_types)
        return False

    def _unify_tensors(self, a: TensorType, b: TensorType, join: bool) -> Type:
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            raise TypeCheckError(f"{a} does not agree with {b}")
        shape = [_unify_dims(x, y) for x, y in zip(a.shape, b.shape, strict=True)]
        if None in shape and not join:
            position = shape.index(None)
            raise TypeCheckError(
                f"{a} does not agree with {b}: dimension {position} is {a.shape[position]} and {b.shape[position]}"
            )
        return TensorType([Any() if d is None else d for d in shape], a.dtype)


def _unify_dims(a: Dim, b: Dim) -> Dim | None:
    if dims.is_any(a) or dims.is_any(b):
        return Any()
    same = dims.equal(a, b)
    if same:
        return a
    return Any() if same is None else None


def replace(ty: Type, mapping: dict[TypeVar, Type]) -> Type:
    """Return a type with type variables replaced."""
    if isinstance(ty, TypeVar):
        return mapping.get(ty, ty)
    if isinstance(ty, TupleType):
        return TupleType([replace(f, mapping) for f in ty.fields])
    if isinstance(ty, FuncType):
        return FuncType(
            [replace(a, mapping) for a in ty.arg_types], replace(ty.ret_type, mapping), list(ty.type_params)
        )
    return ty


def bind_symbols(formal: Type, actual: Type, bound: dict[tvm.ir.Expr, Dim]) -> None:
    """Record in `bound` what the symbolic dimensions of a parameter's type stand for in an argument's type."""
    if isinstance(formal, TupleType) and isinstance(actual, TupleType):
        for f, a in zip(formal.fields, actual.fields, strict=False):
            bind_symbols(f, a, bound)
    elif isinstance(formal, TensorType) and isinstance(actual, TensorType):
        for f, a in zip(formal.shape, actual.shape, strict=False):
            if isinstance(f, tvm.ir.Var):
                bound.setdefault(f, a)


def substitute_symbols(ty: Type, bound: dict[tvm.ir.Expr, Dim]) -> Type:
    """Return a type with symbolic dimensions replaced; one that depends on an unknown dimension becomes ``Any``."""
    if not bound:
        return ty
    if isinstance(ty, TupleType):
        return TupleType([substitute_symbols(f, bound) for f in ty.fields])
    if isinstance(ty, FuncType):
        args = [substitute_symbols(a, bound) for a in ty.arg_types]
        return FuncType(args, substitute_symbols(ty.ret_type, bound), list(ty.type_params))
    if isinstance(ty, TensorType):
        return TensorType([_substitute_dim(d, bound) for d in ty.shape], ty.dtype)
    return ty


def _substitute_dim(dim: Dim, bound: dict[tvm.ir.Expr, Dim]) -> Dim:
    used = [bound[s] for s in dims.symbols([dim]) if s in bound]
    if any(dims.is_any(u) for u in used):
        return Any()
    if isinstance(dim, tvm.ir.Var) and dim in bound:
        return bound[dim]
    constants = {
        s: tvm.tirx.IntImm("int64", v) if isinstance(v, int) else v for s, v in bound.items() if not dims.is_any(v)
    }
    return dims.substitute(dim, constants)
