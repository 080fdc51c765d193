"""What the body of a loop takes from around it: every value becomes a parameter of the function that the body is in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm import ir, tirx
from tvm.ir import Span

from ...relay.ir import Any as AnyDim
from ...relay.ir import Call, Constant, Expr, TensorType, Type, Var, composite_of, dims, post_order, type_parts
from ...relay.ir.type_solver import type_symbols
from ...relay.op import build
from .elements import known_elements, sequence_of
from .known import is_symbolic
from .scope import Scope
from .typing import typed

__all__ = ["Capture", "outward", "own_symbols", "parameter", "sizes_carrier", "symbols_of", "with_symbols"]


def parameter(name: str, ty: Type, span: Span | None = None) -> Var:
    """Return a variable that has a type already, and a place if one is given."""
    variable = Var(name, ty, span)
    variable.checked_type_ = ty
    return variable


def with_symbols(ty: Type, prefix: str) -> Type:
    """Return the type of a tensor with a symbol for every unknown dimension; any other type as it is."""
    if not isinstance(ty, TensorType) or not any(dims.is_any(d) for d in ty.shape):
        return ty
    named = [tirx.Var(f"{prefix}_{i}", "int64") if dims.is_any(d) else d for i, d in enumerate(ty.shape)]
    return TensorType(named, ty.dtype)


def own_symbols(formals: Iterable[Var], types: Iterable[Type]) -> set[Any]:
    """Return the symbols that only a function has: dimensions of parameters whose size is not known around it.

    `types` are those that the arguments have around the function.
    """
    pairs = zip(formals, types, strict=True)
    return {s for formal, ty in pairs for s in set(type_symbols(formal.checked_type_)) - set(type_symbols(ty))}


def outward(ty: Type, local: set[Any]) -> Type:
    """Return the type of a function's result as it is known around the function, which alone has some symbols."""
    if isinstance(ty, TensorType):
        shape = [AnyDim() if local.intersection(dims.symbols([d])) else d for d in ty.shape]
        return TensorType(shape, ty.dtype)
    parts = type_parts(ty)
    return composite_of(ty, [outward(p, local) for p in parts]) if parts else ty


class Capture(Scope):
    """The scope around a loop's body, seen from the body.

    Constants are seen as they are, and so is what is known over sizes; all else is seen through a parameter.

    Attributes
    ----------
    formals, actuals : list
        The parameters that were made, and the values that they have around the loop.
    """

    def __init__(self, outer: Scope, param_values: dict[Var, Any]) -> None:
        super().__init__(outer)
        self.param_values = param_values
        self.formals: list[Var] = []
        self.actuals: list[Expr] = []

    def lookup(self, name: str) -> Expr:
        if name not in self.values:
            self.values[name] = self.take(super().lookup(name), name)
        return super().lookup(name)

    def find(self, name: str) -> Expr | None:
        if name not in self.values:
            outside = super().find(name)
            if outside is None:
                return None
            self.values[name] = self.take(outside, name)
        return self.values[name]

    def take(self, value: Expr, name: str = "given") -> Expr:
        """Return what a value from around the loop is inside."""
        if isinstance(value, Constant) or is_symbolic(value):
            return value
        elements = known_elements(value)
        if elements is not None:
            return sequence_of([self.take(e, f"{name}_{i}") for i, e in enumerate(elements)], value)
        for formal, actual in zip(self.formals, self.actuals, strict=True):
            if actual.same_as(value):
                return formal
        formal = parameter(name, with_symbols(typed(value).checked_type_, name))
        if isinstance(value, Var) and value in self.param_values:
            self.param_values[formal] = self.param_values[value]
        self.formals.append(formal)
        self.actuals.append(value)
        return formal

    def around(self, value: Expr) -> Expr | None:
        """Return what a parameter that was made is around the loop; None of anything else."""
        return next((a for f, a in zip(self.formals, self.actuals, strict=True) if f.same_as(value)), None)


def symbols_of(body: Expr, params: Iterable[Var]) -> list[Any]:
    """Return the symbols that a function body uses and that no parameter's shape tells."""
    told = {s for p in params for s in type_symbols(p.checked_type_) if _is_told(s, p.checked_type_)}
    used: dict[Any, None] = {}
    for node in post_order(body):
        if isinstance(node, Call) and isinstance(node.op, ir.Op):
            used.update(dict.fromkeys(_attribute_symbols(node.attrs)))
            used.update(dict.fromkeys(type_symbols(node.checked_type_)))
        elif isinstance(node, Var):
            used.update(dict.fromkeys(type_symbols(node.checked_type_)))
    return [s for s in used if s not in told]


def _is_told(symbol: Any, ty: Type) -> bool:
    return isinstance(ty, TensorType) and any(
        d is symbol or symbol.same_as(d) for d in ty.shape if not isinstance(d, int)
    )


def _attribute_symbols(attrs: Any) -> list[Any]:
    found: list[Any] = []
    for field in getattr(attrs, "declared", ()):
        if field.kind in ("Dim", "Dims", "Nested"):
            waiting = [getattr(attrs, field.name)]
            while waiting:
                value = waiting.pop()
                if isinstance(value, ir.Expr):
                    found += dims.symbols([value])
                elif not isinstance(value, int | float | str | None) and hasattr(value, "__iter__"):
                    waiting += list(value)
    return found


def sizes_carrier(symbols: list[Any]) -> Expr:
    """Return a tensor without elements whose shape tells the values of symbols."""
    return typed(build("zeros", [*symbols, 0], "int8"))
