"""The gradients that an expression is handed by those that use it."""

from __future__ import annotations

from ...ir import Expr, RelayExpr, Tuple, TupleGetItem, TupleType, Type
from ...op.registry import build

__all__ = ["GradientSum", "field_of_any", "typed_field", "zeros_of"]


def zeros_of(expr: RelayExpr, ty: Type) -> Expr:
    """Return zeros of the type of an expression."""
    if isinstance(ty, TupleType):
        return Tuple([zeros_of(typed_field(expr, i), field) for i, field in enumerate(ty.fields)])
    return build("zeros_like", expr)


def typed_field(expr: RelayExpr, index: int) -> RelayExpr:
    """Return a field of a typed tuple, with its type."""
    if isinstance(expr, Tuple):
        return expr.fields[index]
    made = TupleGetItem(expr, index)
    made.checked_type_ = expr.checked_type.fields[index]
    return made


def field_of_any(value: Expr, index: int) -> Expr:
    """Return a field of a tuple that need not be typed."""
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)


class GradientSum:
    """What an expression was handed: the parts of its gradient, and of those of its fields if it is a tuple."""

    def __init__(self) -> None:
        self.parts: list[Expr] = []
        self.fields: dict[int, GradientSum] = {}

    def at(self, index: int) -> GradientSum:
        """Return the sum for a field."""
        return self.fields.setdefault(index, GradientSum())

    def add(self, value: Expr, ty: Type) -> None:
        """Take one more part."""
        if isinstance(ty, TupleType):
            for index, field in enumerate(ty.fields):
                self.at(index).add(field_of_any(value, index), field)
        else:
            self.parts.append(value)

    def total(self, expr: RelayExpr) -> Expr:
        """Return the gradient of an expression."""
        ty = expr.checked_type
        if isinstance(ty, TupleType):
            fields = [typed_field(expr, index) for index in range(len(ty.fields))]
            return Tuple([self.at(index).total(field) for index, field in enumerate(fields)])
        if not self.parts:
            return zeros_of(expr, ty)
        result = self.parts[0]
        for part in self.parts[1:]:
            result = result + part
        return result
