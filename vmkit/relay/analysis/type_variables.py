"""The type variables of an expression or a type."""

from __future__ import annotations

import tvm

from ..ir import Call, Function, FuncType, RelayExpr, Type, TypeData, TypeVar, Var, post_order
from ..type_functor import TypeVisitor

__all__ = ["all_type_vars", "bound_type_vars", "free_type_vars"]


class _Collector(TypeVisitor):
    def __init__(self) -> None:
        self.used: dict[TypeVar, None] = {}
        self.bound: dict[TypeVar, None] = {}

    def visit_type_var(self, ty: TypeVar) -> None:
        self.used[ty] = None

    def visit_func_type(self, ty: FuncType) -> None:
        for param in ty.type_params:
            self.used[param] = self.bound[param] = None
        super().visit_func_type(ty)

    def visit_type_data(self, ty: TypeData) -> None:
        for variable in ty.type_vars:
            self.bound[variable] = None
        super().visit_type_data(ty)
        for constructor in ty.constructors:
            for part in constructor.inputs:
                self.visit(part)


def _collected(expr: RelayExpr) -> _Collector:
    found = _Collector()
    if isinstance(expr, Type | TypeData):
        found.visit(expr)
        return found
    for node in post_order(expr):
        if isinstance(node, Function):
            for param in node.type_params:
                found.visit(param)
                found.bound[param] = None
        for ty in _types(node):
            found.visit(ty)
    return found


def _types(node: RelayExpr) -> list[Type]:
    if isinstance(node, Var):
        return [] if node.type_annotation is None else [node.type_annotation]
    if isinstance(node, Function):
        return [] if node.ret_type is None else [node.ret_type]
    return list(node.type_args) if isinstance(node, Call) else []


def all_type_vars(expr: RelayExpr, mod: tvm.IRModule | None = None) -> list[TypeVar]:
    """Return all type variables of an expression or type; `mod` is not needed and kept for Relay's signature."""
    return list(_collected(expr).used)


def bound_type_vars(expr: RelayExpr, mod: tvm.IRModule | None = None) -> list[TypeVar]:
    """Return the type variables that an expression or type binds."""
    found = _collected(expr)
    return [v for v in found.used if v in found.bound]


def free_type_vars(expr: RelayExpr, mod: tvm.IRModule | None = None) -> list[TypeVar]:
    """Return the type variables that an expression or type uses and does not bind."""
    found = _collected(expr)
    return [v for v in found.used if v not in found.bound]
