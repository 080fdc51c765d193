"""The names that a printed text uses: each once, and each one that the parser reads back."""

from __future__ import annotations

import re
from typing import Any

from .lexer import KEYWORDS

__all__ = ["PrintedNames"]

_ILLEGAL = re.compile(r"[^A-Za-z0-9_/]")
_ILLEGAL_DIM = re.compile(r"[^A-Za-z0-9_]")


class PrintedNames:
    """Gives names to variables and symbolic dimensions.

    Local variables are told apart in the whole text, as Relay did; symbolic dimensions in each global function.
    """

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._dims: dict[Any, str] = {}

    def start_function(self) -> None:
        """Forget the symbolic dimensions of the function before."""
        self._dims = {}

    def local(self, hint: str) -> str:
        """Return a new name for a local variable, ``%`` included."""
        hint = _ILLEGAL.sub("_", hint)
        name = f"%{hint}" if hint[:1].isalpha() else f"%v{hint}"
        if name in self._taken:
            name = self._numbered(name)
        self._taken[name] = 0
        return name

    def _numbered(self, name: str) -> str:
        while True:
            self._taken[name] += 1
            candidate = f"{name}{self._taken[name]}"
            if candidate not in self._taken:
                return candidate

    def dim(self, symbol: Any) -> str:
        """Return the name of a symbolic dimension; the same wherever it stands in a function."""
        found = self._dims.get(symbol)
        if found is None:
            found = self._dims[symbol] = self._new_dim(symbol.name)
        return found

    def _new_dim(self, hint: str) -> str:
        name = _ILLEGAL_DIM.sub("_", hint)
        if not name[:1].isalpha() or name in KEYWORDS:
            name = f"n{name}"
        taken = set(self._dims.values())
        count, candidate = 0, name
        while candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        return candidate
