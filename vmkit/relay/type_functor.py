"""Visitors of types for users to derive from, with the names that Relay gave their methods."""

from __future__ import annotations

import typing
from typing import Generic, cast

from .ir import (
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
    TypeRelation,
    TypeVar,
    UnrankedType,
)

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]

R = typing.TypeVar("R")

_METHODS: dict[type, str] = {
    FuncType: "visit_func_type",
    GlobalTypeVar: "visit_global_type_var",
    IncompleteType: "visit_incomplete_type",
    MapType: "visit_map_type",
    OptionalType: "visit_optional_type",
    RefType: "visit_ref_type",
    SequenceType: "visit_sequence_type",
    TensorType: "visit_tensor_type",
    TupleType: "visit_tuple_type",
    TypeCall: "visit_type_call",
    TypeData: "visit_type_data",
    TypeRelation: "visit_type_relation",
    TypeVar: "visit_type_var",
    UnrankedType: "visit_unranked_type",
}


class TypeFunctor(Generic[R]):
    """A function over types: one method for each kind of them."""

    def visit(self, ty: Type | TypeData) -> R:
        """Return the result of a type."""
        if type(ty) not in _METHODS:
            raise TypeError(f"{type(ty).__name__} is not a Relay type")
        result: R = getattr(self, _METHODS[type(ty)])(ty)
        return result

    def visit_func_type(self, ty: FuncType) -> R:
        raise NotImplementedError

    def visit_global_type_var(self, ty: GlobalTypeVar) -> R:
        raise NotImplementedError

    def visit_incomplete_type(self, ty: IncompleteType) -> R:
        raise NotImplementedError

    def visit_map_type(self, ty: MapType) -> R:
        raise NotImplementedError

    def visit_optional_type(self, ty: OptionalType) -> R:
        raise NotImplementedError

    def visit_ref_type(self, ty: RefType) -> R:
        raise NotImplementedError

    def visit_sequence_type(self, ty: SequenceType) -> R:
        raise NotImplementedError

    def visit_tensor_type(self, ty: TensorType) -> R:
        raise NotImplementedError

    def visit_tuple_type(self, ty: TupleType) -> R:
        raise NotImplementedError

    def visit_type_call(self, ty: TypeCall) -> R:
        raise NotImplementedError

    def visit_type_data(self, ty: TypeData) -> R | TypeData:
        raise NotImplementedError

    def visit_type_relation(self, ty: TypeRelation) -> R:
        raise NotImplementedError

    def visit_type_var(self, ty: TypeVar) -> R:
        raise NotImplementedError

    def visit_unranked_type(self, ty: UnrankedType) -> R:
        raise NotImplementedError


class TypeVisitor(TypeFunctor[None]):
    """Visits every type below one."""

    def visit_func_type(self, ty: FuncType) -> None:
        for part in (*ty.arg_types, ty.ret_type, *ty.type_params, *ty.type_constraints):
            self.visit(part)

    def visit_global_type_var(self, ty: GlobalTypeVar) -> None:
        pass

    def visit_incomplete_type(self, ty: IncompleteType) -> None:
        pass

    def visit_map_type(self, ty: MapType) -> None:
        for part in (ty.keys, ty.values):
            self.visit(part)

    def visit_optional_type(self, ty: OptionalType) -> None:
        self.visit(ty.element)

    def visit_ref_type(self, ty: RefType) -> None:
        self.visit(ty.value)

    def visit_sequence_type(self, ty: SequenceType) -> None:
        self.visit(ty.element)

    def visit_tensor_type(self, ty: TensorType) -> None:
        pass

    def visit_tuple_type(self, ty: TupleType) -> None:
        for part in ty.fields:
            self.visit(part)

    def visit_type_call(self, ty: TypeCall) -> None:
        for part in (ty.func, *ty.args):
            self.visit(part)

    def visit_type_data(self, ty: TypeData) -> None:
        for part in (ty.header, *ty.type_vars):
            self.visit(part)

    def visit_type_relation(self, ty: TypeRelation) -> None:
        for part in ty.args:
            self.visit(part)

    def visit_type_var(self, ty: TypeVar) -> None:
        pass

    def visit_unranked_type(self, ty: UnrankedType) -> None:
        for part in ty.alternatives:
            self.visit(part)


class TypeMutator(TypeFunctor[Type]):
    """Builds a type anew; override the methods of what shall become something else.

    Type variables and holes stay the same ones, unless overridden: a copy would be another variable.
    """

    def visit_func_type(self, ty: FuncType) -> Type:
        args = [self.visit(a) for a in ty.arg_types]
        params = [cast("TypeVar", self.visit(p)) for p in ty.type_params]
        return FuncType(args, self.visit(ty.ret_type), params, [self.visit(c) for c in ty.type_constraints])

    def visit_global_type_var(self, ty: GlobalTypeVar) -> Type:
        return ty

    def visit_incomplete_type(self, ty: IncompleteType) -> Type:
        return ty

    def visit_map_type(self, ty: MapType) -> Type:
        return MapType(self.visit(ty.keys), self.visit(ty.values))

    def visit_optional_type(self, ty: OptionalType) -> Type:
        return OptionalType(self.visit(ty.element))

    def visit_ref_type(self, ty: RefType) -> Type:
        return RefType(self.visit(ty.value))

    def visit_sequence_type(self, ty: SequenceType) -> Type:
        return SequenceType(self.visit(ty.element))

    def visit_tensor_type(self, ty: TensorType) -> Type:
        return TensorType(list(ty.shape), ty.dtype)

    def visit_tuple_type(self, ty: TupleType) -> Type:
        return TupleType([self.visit(part) for part in ty.fields])

    def visit_type_call(self, ty: TypeCall) -> Type:
        return TypeCall(self.visit(ty.func), [self.visit(a) for a in ty.args])

    def visit_type_data(self, ty: TypeData) -> TypeData:
        header = cast("GlobalTypeVar", self.visit(ty.header))
        return TypeData(header, [cast("TypeVar", self.visit(v)) for v in ty.type_vars], list(ty.constructors))

    def visit_type_relation(self, ty: TypeRelation) -> Type:
        return TypeRelation(ty.func, [self.visit(part) for part in ty.args], ty.num_inputs, ty.attrs)

    def visit_type_var(self, ty: TypeVar) -> Type:
        return ty

    def visit_unranked_type(self, ty: UnrankedType) -> Type:
        return UnrankedType(ty.dtype, ty.is_empty, [cast("TensorType", self.visit(t)) for t in ty.alternatives])
