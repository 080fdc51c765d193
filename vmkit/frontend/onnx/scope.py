"""The values that the names of a graph stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ..._dataclasses import dataclass
from ...errors import ModelError
from ...relay.ir import Expr

__all__ = ["Frame", "Scope"]


@dataclass(frozen=True)
class Frame:
    """What the graphs of a model, or those of one call of a function, have in common.

    Attributes
    ----------
    versions : mapping
        The opset version of every domain.
    calls : tuple
        The functions that are being imported: one within it would never end.
    """

    versions: Mapping[str, int] = field(default_factory=dict)
    calls: tuple[tuple[str, str, str], ...] = ()


class Scope:
    """The values that names stand for, those of the graphs around included."""

    def __init__(
        self,
        outer: Scope | None = None,
        values: Mapping[str, Expr | None] | None = None,
        frame: Frame | None = None,
    ) -> None:
        self.outer = outer
        self.frame: Frame = frame or (outer.frame if outer is not None else Frame())
        self.values = dict(values or {})

    def names(self) -> set[str]:
        """Return all names that can be seen."""
        return set(self.values) | (self.outer.names() if self.outer is not None else set())

    def define(self, names: Sequence[str], values: Sequence[Expr | None]) -> None:
        """Bind the outputs of a node."""
        self.values.update((n, v) for n, v in zip(names, values, strict=False) if n)

    def find(self, name: str) -> Expr | None:
        """Return the value of a name, None if it has none."""
        if name in self.values or self.outer is None:
            return self.values.get(name)
        return self.outer.find(name)

    def lookup(self, name: str) -> Expr:
        """Return the value of a name."""
        if name in self.values:
            value = self.values[name]
            if value is None:
                raise ModelError(f"{name!r} is read, an optional output that the converter of its node does not give")
            return value
        if self.outer is None:
            raise ModelError(f"the name {name!r} is not defined")
        return self.outer.lookup(name)

    def take(self, value: Expr, name: str = "given") -> Expr:
        """Return what a value from around this scope is inside it."""
        return value
