"""The names that a printed text uses: each once, and each one that the parser reads back."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx

from ..ir import TypeVar
from ..ir.dtype import as_dtype
from .lexer import KEYWORDS

__all__ = ["PrintedNames"]

_ILLEGAL = re.compile(r"[^A-Za-z0-9_/]")
_ILLEGAL_DIM = re.compile(r"[^A-Za-z0-9_]")


class PrintedNames:
    """Gives names to variables, symbolic dimensions and type variables.

    Local variables are told apart in the whole text, as Relay did; symbolic dimensions in each global function; a type
    variable has another name than those of the functions around.
    """

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._dims: dict[Any, str] = {}
        self._types: dict[TypeVar, str] = {}
        self._types_around: list[str] = []

    def start_function(self) -> None:
        """Forget what belongs to the function before."""
        self._dims, self._types, self._types_around = {}, {}, []

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

    @contextmanager
    def type_params(self, variables: Iterable[TypeVar]) -> Iterator[list[str]]:
        """Give names to the type parameters of a function; they are taken until it ends."""
        outer = len(self._types_around)
        for variable in variables:
            self._types_around.append(self._type_variable(variable))
        yield self._types_around[outer:]
        del self._types_around[outer:]

    def symbol(self, symbol: TypeVar | tirx.Var) -> str:
        """Return the name of a type variable or a symbolic dimension; the same wherever it stands in a function."""
        return self._type_variable(symbol) if isinstance(symbol, TypeVar) else self._dim(symbol)

    def _type_variable(self, variable: TypeVar) -> str:
        found = self._types.get(variable)
        if found is None:
            name = _ILLEGAL.sub("_", variable.name_hint)
            if not name[:1].isalpha() or name in KEYWORDS or name == "Tensor" or as_dtype(name) is not None:
                name = f"T{name}"
            found = self._types[variable] = _unlike(name, self._types_around, "")
        return found

    def _dim(self, symbol: tirx.Var) -> str:
        found = self._dims.get(symbol)
        if found is None:
            found = self._dims[symbol] = self._new_dim(symbol.name)
        return found

    def _new_dim(self, hint: str) -> str:
        name = _ILLEGAL_DIM.sub("_", hint)
        if not name[:1].isalpha() or name in KEYWORDS:
            name = f"n{name}"
        return _unlike(name, set(self._dims.values()), "_")


def _unlike(name: str, taken: Container[str], before_number: str) -> str:
    """Return a name with a number after it if it is taken."""
    count, candidate = 0, name
    while candidate in taken:
        count += 1
        candidate = f"{name}{before_number}{count}"
    return candidate
