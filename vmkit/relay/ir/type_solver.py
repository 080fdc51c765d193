"""Unification of Relay types: holes are filled, unknown dimensions agree with everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm

from ...errors import TypeCheckError
from . import dims
from .types import (
    Any,
    Dim,
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
    TypeVar,
    UnrankedType,
    address,
    brief_type_text,
    composite_of,
    distinct_parts,
    rebuilt,
    type_parts,
)

__all__ = ["TypeSolver", "as_unranked", "bind_symbols", "replace", "substitute_symbols", "type_symbols"]


class TypeSolver:
    """Fills the holes of types so that types which must agree do.

    A hole (``IncompleteType``) is bound at most once; binding it again unifies the two. A dimension ``Any`` agrees
    with every dimension, and so does a symbol with another: what they stand for is checked at run time.

    A type may be in another many times, and that again in a third: each is looked at once.
    """

    def __init__(self) -> None:
        self._bound: dict[IncompleteType, Type] = {}
        # Types without holes, by address.
        self._complete: dict[int, Type] = {}
        # Types whose holes are filled, by address, and what they stand for; for as long as no filled hole changes.
        self._applied: dict[int, tuple[Type, Type]] = {}
        self._known: dict[int, Type] = {}
        # Pairs that agreed, by address, with what both are; for as long as no hole changes, and one call.
        self._agreed: dict[tuple[int, int, bool], tuple[Type, Type, Type]] = {}
        self._depth = 0

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
        return self._apply(ty, {})

    def _apply(self, ty: Type, done: dict[int, Type]) -> Type:
        ty = self.resolve(ty)
        parts = type_parts(ty)
        if not parts or address(ty) in self._complete:
            return ty
        if address(ty) in done:
            return done[address(ty)]
        if address(ty) in self._applied:
            return self._applied[address(ty)][1]
        applied = [self._apply(p, done) for p in parts]
        made = ty
        if not all(a.same_as(p) for a, p in zip(applied, parts, strict=True)):
            made = composite_of(ty, applied)
        if not any(self._may_change(a) for a in applied):
            self._complete[address(made)] = made
            self._applied[address(ty)] = (ty, made)
        done[address(ty)] = made
        return made

    def _may_change(self, ty: Type) -> bool:
        return isinstance(ty, IncompleteType) or (bool(type_parts(ty)) and address(ty) not in self._complete)

    def is_known(self, ty: Type) -> bool:
        """Say whether no hole is left in a type."""
        ty = self.resolve(ty)
        parts = type_parts(ty)
        if not parts or address(ty) in self._known:
            return not isinstance(ty, IncompleteType)
        is_known = all(self.is_known(part) for part in parts)
        if is_known:
            self._known[address(ty)] = ty
        return is_known

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
        x, y = self.resolve(a), self.resolve(b)
        if x.same_as(y):
            return x
        if isinstance(x, IncompleteType):
            return self._bind(x, y)
        if isinstance(y, IncompleteType):
            return self._bind(y, x)
        unified = (self._unify_composite if type_parts(x) else self._unify_known)(x, y, join)
        # A filled hole becomes as general as what it had to agree with.
        self._widen(a, x, unified)
        self._widen(b, y, unified)
        return unified

    def _unify_composite(self, a: Type, b: Type, join: bool) -> Type:
        """Make two types agree that are made of others, unless they are known to."""
        pair = (address(a), address(b), join)
        if pair in self._agreed:
            return self._agreed[pair][-1]
        self._depth += 1
        try:
            unified = self._unify_known(a, b, join)
            self._agreed[pair] = (a, b, unified)
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._agreed.clear()
        return unified

    def _widen(self, hole: Type, ty: Type, unified: Type) -> None:
        if ty.same_as(unified):
            return
        while isinstance(hole, IncompleteType):
            inner = self._bound[hole]
            if inner.same_as(ty):
                self._bound[hole] = unified
                self._agreed.clear()
                self._applied.clear()
                self._known.clear()
            hole = inner

    def _unify_known(self, a: Type, b: Type, join: bool) -> Type:
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return self._unify_tensors(a, b, join)
        if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
            return TupleType([self.unify(x, y, join=join) for x, y in zip(a.fields, b.fields, strict=True)])
        if isinstance(a, FuncType) and isinstance(b, FuncType) and len(a.arg_types) == len(b.arg_types):
            a, b = self._with_same_params(a, b)
            args = [self.unify(x, y, join=join) for x, y in zip(a.arg_types, b.arg_types, strict=True)]
            return FuncType(args, self.unify(a.ret_type, b.ret_type, join=join), list(a.type_params))
        if _are_instances_of_one(a, b):
            return TypeCall(a.func, [self.unify(x, y, join=join) for x, y in zip(a.args, b.args, strict=True)])
        if isinstance(a, RefType) and isinstance(b, RefType):
            return RefType(self.unify(a.value, b.value))
        if isinstance(a, GlobalTypeVar) and _is_same_name(a, b):
            return a
        if isinstance(a, SequenceType) and isinstance(b, SequenceType):
            return SequenceType(self._unify_elements(a.element, b.element, join))
        if isinstance(a, OptionalType) and isinstance(b, OptionalType):
            return OptionalType(self._unify_elements(a.element, b.element, join))
        if isinstance(a, MapType) and isinstance(b, MapType):
            return MapType(self.unify(a.keys, b.keys, join=join), self.unify(a.values, b.values, join=join))
        if isinstance(a, UnrankedType) and isinstance(b, UnrankedType) and a.dtype == b.dtype:
            return self._unify_unranked(a, b)
        if type(a) is type(b) and not isinstance(a, TypeVar | GlobalTypeVar) and not type_parts(a) and a == b:
            return a
        raise TypeCheckError(f"{brief_type_text(self.apply(a))} does not agree with {brief_type_text(self.apply(b))}")

    def _unify_elements(self, a: Type, b: Type, join: bool) -> Type:
        """Make the elements of two sequences agree; with `join`, in ranks that differ too."""
        x, y = self.resolve(a), self.resolve(b)
        if not isinstance(x, UnrankedType | TensorType) or not isinstance(y, UnrankedType | TensorType):
            return self.unify(a, b, join=join)
        if x.dtype != y.dtype:
            raise TypeCheckError(f"{x} does not agree with {y}")
        if isinstance(x, TensorType) and isinstance(y, TensorType):
            if not join or len(x.shape) == len(y.shape):
                return self.unify(a, b, join=join)
            return UnrankedType(x.dtype, alternatives=[x, y])
        return self._unify_unranked(as_unranked(x), as_unranked(y))

    def _unify_unranked(self, a: UnrankedType, b: UnrankedType) -> Type:
        """Return the type of tensors that are of one of two types; each says which shapes there are, if it knows."""
        if a.is_empty or b.is_empty:
            other = b if a.is_empty else a
            return other.alternatives[0] if len(other.alternatives) == 1 else other
        if not a.alternatives or not b.alternatives:
            return UnrankedType(a.dtype)
        ways: dict[int, TensorType] = {}
        for way in (*a.alternatives, *b.alternatives):
            rank = len(way.shape)
            ways[rank] = self._unify_tensors(ways[rank], way, join=True) if rank in ways else way
        return UnrankedType(a.dtype, alternatives=list(ways.values()))

    def instantiate(self, ty: FuncType, type_args: Sequence[Type] = ()) -> FuncType:
        """Return a function type with its type parameters replaced by `type_args`, or by new holes."""
        params = list(ty.type_params)
        if not params:
            return ty
        if type_args and len(type_args) != len(params):
            raise TypeCheckError(f"{ty} has {len(params)} type parameters, got {len(type_args)} type arguments")
        mapping: dict[TypeVar, Type] = dict(zip(params, type_args or [self.hole() for _ in params], strict=True))
        return FuncType([replace(a, mapping) for a in ty.arg_types], replace(ty.ret_type, mapping))

    def _with_same_params(self, a: FuncType, b: FuncType) -> tuple[FuncType, FuncType]:
        """Return two function types over the same type parameters; where one has more, those become holes.

        So a polymorphic function is a value of every type that it has an instance of.
        """
        fewer, more = (a, b) if len(a.type_params) <= len(b.type_params) else (b, a)
        chosen = [*fewer.type_params, *(self.hole() for _ in range(len(more.type_params) - len(fewer.type_params)))]
        mapping: dict[TypeVar, Type] = dict(zip(more.type_params, chosen, strict=True))
        args = [replace(t, mapping) for t in more.arg_types]
        instance = FuncType(args, replace(more.ret_type, mapping), list(fewer.type_params))
        return (a, instance) if more is b else (instance, b)

    def _bind(self, hole: IncompleteType, ty: Type) -> Type:
        if self._occurs(hole, ty):
            raise TypeCheckError(f"the type would contain itself: {brief_type_text(self.apply(ty))}")
        self._bound[hole] = ty
        self._agreed.clear()
        return ty

    def _occurs(self, hole: IncompleteType, ty: Type) -> bool:
        return not self.is_known(ty) and any(part.same_as(hole) for part in distinct_parts(ty, self.resolve))

    def _unify_tensors(self, a: TensorType, b: TensorType, join: bool) -> TensorType:
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            raise TypeCheckError(f"{a} does not agree with {b}")
        shape = [_unify_dims(x, y) for x, y in zip(a.shape, b.shape, strict=True)]
        if None in shape and not join:
            conflicts = [
                f"dimension {position} conflicts: {a.shape[position]} does not match {b.shape[position]}."
                for position, dim in enumerate(shape)
                if dim is None
            ]
            # In Relay's words, which those who met it there look for.
            raise TypeCheckError(f"{a} does not agree with {b}. In particular {' '.join(conflicts)}")
        return TensorType([Any() if d is None else d for d in shape], a.dtype)


def as_unranked(ty: TensorType | UnrankedType) -> UnrankedType:
    """Return the type of tensors of a type, as of those whose rank is not known."""
    return ty if isinstance(ty, UnrankedType) else UnrankedType(ty.dtype, alternatives=[ty])


def _unify_dims(a: Dim, b: Dim) -> Dim | None:
    if dims.is_any(a) or dims.is_any(b):
        return Any()
    same = dims.equal(a, b)
    if same:
        return a
    return Any() if same is None else None


def _are_instances_of_one(a: Type, b: Type) -> bool:
    is_call = isinstance(a, TypeCall) and isinstance(b, TypeCall)
    return is_call and _is_same_name(a.func, b.func) and len(a.args) == len(b.args)


def _is_same_name(a: Type, b: Type) -> bool:
    if isinstance(a, GlobalTypeVar) and isinstance(b, GlobalTypeVar):
        return a.name_hint == b.name_hint
    return a.same_as(b)


def replace(ty: Type, mapping: Mapping[TypeVar, Type]) -> Type:
    """Return a type with type variables replaced."""
    return rebuilt(ty, lambda leaf: mapping.get(leaf, leaf) if isinstance(leaf, TypeVar) else leaf) if mapping else ty


def bind_symbols(formal: Type, actual: Type, bound: dict[tvm.ir.Var, Dim]) -> None:
    """Record in `bound` what the symbolic dimensions of a parameter's type stand for in an argument's type."""
    waiting, seen = [(formal, actual)], set[tuple[int, int]]()
    while waiting:
        formal, actual = waiting.pop()
        if isinstance(formal, TensorType) and isinstance(actual, TensorType):
            for f, a in zip(formal.shape, actual.shape, strict=False):
                if isinstance(f, tvm.ir.Var):
                    bound.setdefault(f, a)
        elif isinstance(formal, TupleType) and isinstance(actual, TupleType):
            pair = (address(formal), address(actual))
            if pair not in seen:
                seen.add(pair)
                waiting += reversed([*zip(formal.fields, actual.fields, strict=False)])


def type_symbols(ty: Type) -> list[tvm.ir.Var]:
    """Return the symbolic dimensions in a type."""
    return [
        symbol
        for part in distinct_parts(ty)
        if isinstance(part, TensorType) and not all(isinstance(d, int) for d in part.shape)
        for symbol in dims.symbols(list(part.shape))
    ]


def substitute_symbols(ty: Type, bound: dict[tvm.ir.Var, Dim]) -> Type:
    """Return a type with symbolic dimensions replaced; one that depends on an unknown dimension becomes ``Any``."""

    def substituted(leaf: Type) -> Type:
        if not isinstance(leaf, TensorType):
            return leaf
        return TensorType([_substitute_dim(d, bound) for d in leaf.shape], leaf.dtype)

    return rebuilt(ty, substituted) if bound else ty


def _substitute_dim(dim: Dim, bound: dict[tvm.ir.Var, Dim]) -> Dim:
    used = [bound[s] for s in dims.symbols([dim]) if s in bound]
    if any(dims.is_any(u) for u in used):
        return Any()
    if isinstance(dim, tvm.ir.Var) and dim in bound:
        return bound[dim]
    constants: dict[tvm.ir.Var, tvm.ir.Expr] = {
        s: tvm.tirx.IntImm("int64", v) if isinstance(v, int) else v for s, v in bound.items() if not dims.is_any(v)
    }
    return dims.substitute(dim, constants)
