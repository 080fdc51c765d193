"""Visitors of types for users to derive from, with the names that Relay gave their methods."""

from __future__ import annotations

from typing import Any

from .ir import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    OptionalType,
    RefType,
    SequenceType,
    TensorType,
    TupleType,
    TypeCall,
    TypeData,
    TypeVar,
    UnrankedType,
)

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]

_METHODS: dict[type, str] = {
    FuncType: "visit_func_type",
    GlobalTypeVar: "visit_global_type_var",
    IncompleteType: "visit_incomplete_type",
    OptionalType: "visit_optional_type",
    RefType: "visit_ref_type",
    SequenceType: "visit_sequence_type",
    TensorType: "visit_tensor_type",
    TupleType: "visit_tuple_type",
    TypeCall: "visit_type_call",
    TypeData: "visit_type_data",
    TypeVar: "visit_type_var",
    UnrankedType: "visit_unranked_type",
}


class TypeFunctor:
    """A function over types: one method for each kind of them."""

    def visit(self, ty: Any) -> Any:
        """Return the result of a type."""
        if type(ty) not in _METHODS:
            raise TypeError(f"{type(ty).__name__} is not a Relay type")
        return getattr(self, _METHODS[type(ty)])(ty)

    def visit_func_type(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_global_type_var(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_incomplete_type(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_optional_type(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_ref_type(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_sequence_type(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_tensor_type(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_tuple_type(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_type_call(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_type_data(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_type_var(self, ty: Any) -> Any:
        raise NotImplementedError

    def visit_unranked_type(self, ty: Any) -> Any:
        raise NotImplementedError


class TypeVisitor(TypeFunctor):
    """Visits every type below one."""

    def visit_func_type(self, ty: FuncType) -> Any:
        for part in (*ty.arg_types, ty.ret_type, *ty.type_params):
            self.visit(part)

    def visit_global_type_var(self, ty: GlobalTypeVar) -> Any:
        pass

    def visit_incomplete_type(self, ty: IncompleteType) -> Any:
        pass

    def visit_optional_type(self, ty: OptionalType) -> Any:
        self.visit(ty.element)

    def visit_ref_type(self, ty: RefType) -> Any:
        self.visit(ty.value)

    def visit_sequence_type(self, ty: SequenceType) -> Any:
        self.visit(ty.element)

    def visit_tensor_type(self, ty: TensorType) -> Any:
        pass

    def visit_tuple_type(self, ty: TupleType) -> Any:
        for part in ty.fields:
            self.visit(part)

    def visit_type_call(self, ty: TypeCall) -> Any:
        for part in (ty.func, *ty.args):
            self.visit(part)

    def visit_type_data(self, ty: TypeData) -> Any:
        for part in (ty.header, *ty.type_vars):
            self.visit(part)

    def visit_type_var(self, ty: TypeVar) -> Any:
        pass

    def visit_unranked_type(self, ty: UnrankedType) -> Any:
        pass


class TypeMutator(TypeFunctor):
    """Builds a type anew; override the methods of what shall become something else.

    Type variables and holes stay the same ones, unless overridden: a copy would be another variable.
    """

    def visit_func_type(self, ty: FuncType) -> Any:
        args = [self.visit(a) for a in ty.arg_types]
        return FuncType(args, self.visit(ty.ret_type), [self.visit(p) for p in ty.type_params])

    def visit_global_type_var(self, ty: GlobalTypeVar) -> Any:
        return ty

    def visit_incomplete_type(self, ty: IncompleteType) -> Any:
        return ty

    def visit_optional_type(self, ty: OptionalType) -> Any:
        return OptionalType(self.visit(ty.element))

    def visit_ref_type(self, ty: RefType) -> Any:
        return RefType(self.visit(ty.value))

    def visit_sequence_type(self, ty: SequenceType) -> Any:
        return SequenceType(self.visit(ty.element))

    def visit_tensor_type(self, ty: TensorType) -> Any:
        return TensorType(list(ty.shape), ty.dtype)

    def visit_tuple_type(self, ty: TupleType) -> Any:
        return TupleType([self.visit(part) for part in ty.fields])

    def visit_type_call(self, ty: TypeCall) -> Any:
        return TypeCall(self.visit(ty.func), [self.visit(a) for a in ty.args])

    def visit_type_data(self, ty: TypeData) -> Any:
        return TypeData(self.visit(ty.header), [self.visit(v) for v in ty.type_vars], list(ty.constructors))

    def visit_type_var(self, ty: TypeVar) -> Any:
        return ty

    def visit_unranked_type(self, ty: UnrankedType) -> Any:
        return ty
