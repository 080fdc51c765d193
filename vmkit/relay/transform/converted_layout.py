"""Values that are in another layout than the program was written for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from ..ir import Call, RelayExpr, Tuple, TupleGetItem
from ..op.registry import build
from .known_type import type_of

__all__ = ["Converted", "LayoutValue", "Layouts", "Several", "fields_of", "is_plain_layout"]


@dataclass(frozen=True, eq=False)
class Converted:
    """A tensor that the program knows in layout `old`, computed in layout `new`."""

    expr: RelayExpr
    old: str
    new: str

    def agrees(self, other: LayoutValue) -> TypeGuard[Converted]:
        """Say whether another value is converted in the same way."""
        return isinstance(other, Converted) and (other.old, other.new) == (self.old, self.new)

    def moved(self, axis: int) -> int:
        """Return where an axis of the tensor, as the program knows it, is now."""
        return self.new.index(self.old[axis])

    def without(self, expr: RelayExpr, axes: Sequence[int]) -> LayoutValue:
        """Return the value of an expression that lost axes, given as the program knows them."""
        lost = {self.old[a] for a in axes}
        old, new = ("".join(c for c in layout if c not in lost) for layout in (self.old, self.new))
        return expr if old == new else Converted(expr, old, new)


@dataclass(frozen=True, eq=False)
class Several:
    """The fields of a tuple, each an expression or :class:`Converted`."""

    fields: Sequence[RelayExpr | Converted]
    # The tuple itself, where no field is converted.
    whole: RelayExpr | None = None


LayoutValue: TypeAlias = RelayExpr | Converted | Several
"""A value as the program knows it, or in another layout."""


def is_plain_layout(layout: str) -> bool:
    """Say whether a layout names whole axes: ``NCHW``, not ``NCHW4c``."""
    return bool(layout) and layout.isalpha() and layout.isupper() and len(set(layout)) == len(layout)


class Layouts:
    """Changes of layout, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[RelayExpr, str, str], Call] = {}

    def transformed(self, expr: RelayExpr, source: str, target: str) -> RelayExpr:
        """Return a tensor in another layout."""
        if source == target:
            return expr
        key = (expr, source, target)
        if key not in self._made:
            self._made[key] = build("layout_transform", expr, source, target)
            type_of(self._made[key])
        return self._made[key]

    def restored(self, value: LayoutValue) -> RelayExpr:
        """Return a value as the program knows it."""
        if isinstance(value, Converted):
            return self.transformed(value.expr, value.new, value.old)
        if isinstance(value, Several):
            return value.whole if value.whole is not None else Tuple([self.restored(f) for f in value.fields])
        return value

    def as_layout(self, value: LayoutValue, old: str, new: str) -> RelayExpr:
        """Return the tensor of a value that the program knows in layout `old`, in layout `new`."""
        if isinstance(value, Converted) and value.old == old:
            return self.transformed(value.expr, value.new, new)
        return self.transformed(self.restored(value), old, new)

    def broadcast(self, value: LayoutValue, old: str, new: str) -> RelayExpr:
        """Return an operand that is broadcast to a tensor which the program knows in layout `old`, to go with `new`."""
        if isinstance(value, Converted) and value.old == old:
            return self.as_layout(value, old, new)
        expr = self.restored(value)
        rank = len(type_of(expr).shape)
        if rank == 0:
            return expr
        if rank < len(old):
            expr = build("expand_dims", expr, axis=0, num_newaxis=len(old) - rank)
            type_of(expr)
        return self.transformed(expr, old, new)


def fields_of(expr: RelayExpr, count: int) -> Several:
    """Return a tuple-valued expression as its fields."""
    if isinstance(expr, Tuple):
        return Several(list(expr.fields), expr)
    return Several([TupleGetItem(expr, i) for i in range(count)], expr)
