"""Values that are in another layout than the program was written for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..._dataclasses import dataclass
from ...errors import TypeCheckError
from ..ir import RelayExpr, TensorType, Tuple, TupleGetItem
from ..op.nn.layout import Layout
from ..op.registry import build
from .known_type import type_of

__all__ = ["Converted", "LayoutValue", "Layouts", "Several", "fields_of"]


@dataclass(frozen=True, eq=False)
class Converted:
    """A tensor that the program knows in layout `old`, computed in layout `new`; these may be the same."""

    expr: RelayExpr
    old: Layout
    new: Layout

    @property
    def is_moved(self) -> bool:
        """Whether it is in another layout than the program was written for."""
        return self.old.text != self.new.text


@dataclass(frozen=True, eq=False)
class Several:
    """The fields of a tuple, each an expression or :class:`Converted`."""

    fields: Sequence[RelayExpr | Converted]
    # The tuple itself, as it stands in the program now.
    whole: RelayExpr | None = None


LayoutValue: TypeAlias = RelayExpr | Converted | Several
"""A value as the program knows it, or in another layout."""


class Layouts:
    """Changes of layout, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[RelayExpr, str, str], RelayExpr] = {}

    def transformed(self, expr: RelayExpr, source: Layout, target: Layout) -> RelayExpr:
        """Return a tensor in another layout, which may have more axes, in front.

        Raises
        ------
        TypeCheckError
            When one layout cannot become the other.
        """
        if source.text == target.text:
            return expr
        key = (expr, source.text, target.text)
        if key not in self._made:
            made = _transformed(expr, source, target)
            type_of(made)
            self._made[key] = made
        return self._made[key]

    def restored(self, value: LayoutValue) -> RelayExpr:
        """Return a value as the program knows it."""
        if isinstance(value, Converted):
            return self.transformed(value.expr, value.new, value.old)
        if isinstance(value, Several):
            if value.whole is not None and not any(isinstance(f, Converted) and f.is_moved for f in value.fields):
                return value.whole
            return Tuple([self.restored(f) for f in value.fields])
        return value


def _transformed(expr: RelayExpr, source: Layout, target: Layout) -> RelayExpr:
    more = len(target.letters) - len(source.letters)
    if more > 0:
        ty = type_of(expr)
        if isinstance(ty, TensorType) and all(d == 1 for d in ty.shape):
            return expr  # one element is broadcast to any layout
        source = Layout.of("".join(x for x in target.letters if x not in source.letters) + source.text)
        expr = build("expand_dims", expr, axis=0, num_newaxis=more)
        if source.text == target.text:
            return expr
    if sorted(source.letters) != sorted(target.letters):
        raise TypeCheckError(f"a tensor in layout {source.text!r} cannot be had in {target.text!r}: their axes differ")
    return build("layout_transform", expr, source.text, target.text)


def fields_of(expr: RelayExpr, count: int) -> Several:
    """Return a tuple-valued expression as its fields."""
    if isinstance(expr, Tuple):
        return Several(list(expr.fields), expr)
    return Several([TupleGetItem(expr, i) for i in range(count)], expr)
