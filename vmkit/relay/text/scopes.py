"""What names mean at a place in the text: local variables, type variables, symbolic dimensions, graph variables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from tvm import tirx

from ..ir import TypeVar as RelayTypeVar
from ..ir import Var

__all__ = ["Names", "Scopes"]

T = TypeVar("T")


class Names(Generic[T]):
    """Names that hide one another, innermost first; a lookup costs the same however many are bound."""

    def __init__(self) -> None:
        self._bound: dict[str, list[T]] = {}
        self._order: list[str] = []

    def bind(self, name: str, value: T) -> T:
        """Give a name a meaning until the scope it stands in ends."""
        self._bound.setdefault(name, []).append(value)
        self._order.append(name)
        return value

    def find(self, name: str) -> T | None:
        """Return what a name means here, or None."""
        values = self._bound.get(name)
        return values[-1] if values else None

    def known(self) -> list[str]:
        """Return the names bound here."""
        return [name for name, values in self._bound.items() if values]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget on leaving what was bound inside."""
        mark = len(self._order)
        yield
        while len(self._order) > mark:
            self._bound[self._order.pop()].pop()


class Scopes:
    """All the names of a text.

    Graph variables and symbolic dimensions belong to a whole global function; `start_function` forgets them.
    """

    def __init__(self) -> None:
        self.locals: Names[Var] = Names()
        self.types: Names[RelayTypeVar] = Names()
        self.free: dict[str, Var] = {}
        self.graph: dict[int, Any] = {}
        self.dims: dict[str, tirx.Var] = {}

    def start_function(self) -> None:
        """Forget what belongs to the function before."""
        self.graph, self.dims = {}, {}

    def dim(self, name: str) -> tirx.Var:
        """Return the symbolic dimension of a name; the same one wherever the name stands in a function."""
        found = self.dims.get(name)
        if found is None:
            found = self.dims[name] = tirx.Var(name, "int64")
        return found

    def local(self, name: str) -> Var | None:
        """Return the variable that a name means here, or None."""
        return self.locals.find(name) or self.free.get(name)
