"""Which results cannot be too large to count, since tensors of like sizes are there.

The dimensions of an input are those of memory that is there, but a result may have those of several inputs, one of them
twice, or multiplied and padded by what an attribute says. Its size in bytes is computed in 64 bits: one that is not
what its product gives there would have a kernel write beyond the memory that it is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import TypeAlias

import tvm
from tvm import tirx

from ..ir.types import Dim

__all__ = ["Existing"]

Symbols: TypeAlias = Counter[tirx.Var]
_Sizes: TypeAlias = dict[frozenset[tuple[tirx.Var, int]], int]
_Bound: TypeAlias = tuple[int, Symbols]
"""What a dimension is at most: a number times these symbols, each as often as it stands there, none of them below 1."""

# A tensor whose sizes are none of them 0 has less than 2^47 bytes, so 2^16 times as many are counted in 63 bits.
_GROWTH = 1 << 16


class Existing:
    """Tensors that are there where a function has come to.

    Of those with the same symbols the one is known that has the most bytes for sizes of 1.
    """

    def __init__(self) -> None:
        self._made: _Sizes = {}
        self._given: _Sizes = {}
        self._named: dict[tirx.Var, Dim] = {}

    @contextmanager
    def branch(self) -> Iterator[None]:
        """What is there in a branch is not there behind it."""
        made, given = dict(self._made), dict(self._given)
        yield
        self._made, self._given = made, given

    def name(self, symbol: tirx.Var, dim: Dim) -> None:
        """Take a symbol for a dimension that it stands for."""
        self._named[symbol] = dim

    def add(self, dtype: str, shape: list[Dim], *, is_given: bool) -> None:
        """Take a tensor to be there, which was given to the function or made in it."""
        if all(isinstance(dim, int | tvm.ir.Var) for dim in shape):
            key = frozenset(Counter(dim for dim in shape if isinstance(dim, tirx.Var)).items())
            size = _element_bytes(dtype) * prod(dim for dim in shape if isinstance(dim, int))
            for table in (self._made, self._given) if is_given else (self._made,):
                table[key] = max(size, table.get(key, 0))

    def admits(self, dtype: str, shape: list[Dim]) -> bool:
        """Say whether the bytes of a tensor can be counted in 64 bits, whatever its sizes are."""
        bounds = [self._bound(dim) for dim in shape]
        if None in bounds:
            return False
        known = [bound for bound in bounds if bound is not None]
        size = _element_bytes(dtype) * prod(number for number, _ in known)
        symbols = sum((each for _, each in known), Symbols())
        if not symbols or size <= self._made.get(frozenset(symbols.items()), 0) * _GROWTH:
            return True
        # If another size of a tensor is 0, no memory is there; whoever gives it counts the others in 63 bits even so.
        return any(symbols <= Symbols(dict(key)) and size <= there for key, there in self._given.items())

    def _bound(self, dim: Dim) -> _Bound | None:
        """Return what a dimension is at most; None where nothing is known."""
        if isinstance(dim, int):
            return max(1, dim), Symbols()
        match dim:
            case tirx.Var():
                named = self._named.get(dim)
                return (1, Symbols([dim])) if named is None else self._bound(named)
            case tirx.IntImm():
                return max(1, abs(int(dim.value))), Symbols()
            case tirx.Cast():
                return self._bound(dim.value)
            case tirx.FloorDiv() | tirx.Div() | tirx.FloorMod() | tirx.Mod():
                return self._bound(dim.a)
            case tirx.Add() | tirx.Sub() | tirx.Mul() | tirx.Max() | tirx.Min():
                one, other = self._bound(dim.a), self._bound(dim.b)
            case tirx.Select():
                one, other = self._bound(dim.true_value), self._bound(dim.false_value)
            case _:
                return None
        if one is None or other is None:
            return None
        if isinstance(dim, tirx.Mul):
            return one[0] * other[0], one[1] + other[1]
        return one[0] + other[0], one[1] | other[1]


def _element_bytes(dtype: str) -> int:
    return max(1, tvm.DataType(dtype).bits // 8)
