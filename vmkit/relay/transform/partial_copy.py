"""Copies of functions for a partial evaluator, which unfolds each of them once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..analysis.type_variables import free_type_vars
from ..analysis.variables import bound_vars
from ..expr_functor import ExprMutator
from ..ir import Call, Function, RelayExpr, Type, Var
from .type_substitution import TypeSubstitution

__all__ = ["PartialCopy"]


class PartialCopy(ExprMutator):
    """Copies a function with variables of its own; copies of functions are known as copies of the same."""

    def __init__(self, expr: RelayExpr, ids: dict[Any, int], types: Mapping[Any, Type], lost: set[Any]) -> None:
        super().__init__()
        self.ids = ids
        self.types, self.lost = TypeSubstitution(types), lost
        self.memo_map.update({v: Var(v.name_hint, self.type(v.type_annotation), v.span) for v in bound_vars(expr)})

    def type(self, ty: Type | None) -> Type | None:
        """Return a type in the copy; None, for type inference to find, where a type argument is not known."""
        if ty is None or (self.lost and self.lost & set(free_type_vars(cast("RelayExpr", ty)))):
            return None
        return self.types.visit(ty)

    def visit_call(self, call: Call) -> RelayExpr:
        op, args = self.visit(call.op), [self.visit(arg) for arg in call.args]
        types = [self.type(ty) for ty in call.type_args]
        return Call(op, args, call.attrs, [] if None in types else cast("list[Type]", types), call.span)

    def visit_function(self, fn: Function) -> RelayExpr:
        params = [cast("Var", self.visit(p)) for p in fn.params]
        made = Function(params, self.visit(fn.body), self.type(fn.ret_type), list(fn.type_params), fn.attrs, fn.span)
        self.ids[made] = self.ids[fn]
        return made
