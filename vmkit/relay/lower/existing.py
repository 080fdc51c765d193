"""Which results cannot be too large to count, since tensors of like sizes are there.

The dimensions of an input are those of memory that is there, but a result may have those of several inputs, one of them
twice, or multiplied and padded by what an attribute says. Its size in bytes is computed in 64 bits: one that is not
what its product gives there would have a kernel write beyond the memory that it is given.
"""

from __future__ import annotations

import itertools
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
_Bounds: TypeAlias = dict[frozenset[tuple[tirx.Var, int]], int]
"""What a dimension is at most the largest of: products of symbols, each as often as it stands there and none of them
below 1, and the number that each product is multiplied by."""

# A tensor whose sizes are none of them 0 has less than 2^47 bytes, so 2^16 times as many are counted in 63 bits.
_GROWTH = 1 << 16
_FEW, _MOST = 4, 64  # bounds of a symbol, and of a tensor's elements, that are told apart


class Existing:
    """Tensors that are there where a function has come to.

    Of those with the same symbols the one is known that has the most bytes for sizes of 1.
    """

    def __init__(self) -> None:
        self._made: _Sizes = {}
        self._given: _Sizes = {}
        self._given_with: dict[tirx.Var, list[frozenset[tuple[tirx.Var, int]]]] = {}
        self._named: dict[tirx.Var, _Bounds | None] = {}

    @contextmanager
    def branch(self) -> Iterator[None]:
        """What is there in a branch is not there behind it."""
        made, given = dict(self._made), dict(self._given)
        yield
        self._made, self._given = made, given

    def name(self, symbol: tirx.Var, dim: Dim) -> None:
        """Take a symbol for a dimension that it stands for."""
        bounds = self._bounds(dim)
        if bounds is not None and len(bounds) > _FEW:
            # What is at most the largest of many sizes is from now on a size of its own, as if a tensor had it.
            (alone,) = named = _alone(symbol)
            self._made[alone] = min(self._made.get(each, 0) // number for each, number in bounds.items() if each)
            bounds = named
        self._named[symbol] = bounds

    def add(self, dtype: str, shape: list[Dim], *, is_given: bool) -> None:
        """Take a tensor to be there, which was given to the function or made in it."""
        if not all(isinstance(dim, int | tvm.ir.Var) for dim in shape):
            return
        key = frozenset(Counter(dim for dim in shape if isinstance(dim, tirx.Var)).items())
        size = _element_bytes(dtype) * prod(dim for dim in shape if isinstance(dim, int))
        self._made[key] = max(size, self._made.get(key, 0))
        if not is_given:
            return
        if key not in self._given:
            for symbol, _ in key:
                self._given_with.setdefault(symbol, []).append(key)
        self._given[key] = max(size, self._given.get(key, 0))

    def admits(self, dtype: str, shape: list[Dim]) -> bool:
        """Say whether the bytes of a tensor can be counted in 64 bits, whatever its sizes are."""
        whole: _Bounds | None = {frozenset(): _element_bytes(dtype)}
        for dim in shape:
            whole = _products(whole, self._bounds(dim))
        return whole is not None and all(self._is_there(symbols, size) for symbols, size in whole.items())

    def _is_there(self, symbols: frozenset[tuple[tirx.Var, int]], size: int) -> bool:
        """Say whether a tensor is there that has nearly as many bytes as a product of symbols and a number."""
        if not symbols or size <= self._made.get(symbols, 0) * _GROWTH:
            return True
        # If another size of a tensor is 0, no memory is there; whoever gives it counts the others in 63 bits even so.
        some, _ = next(iter(symbols))
        counted = Symbols(dict(symbols))
        for key in self._given_with.get(some, ()):
            if size <= self._given.get(key, 0) and counted <= Symbols(dict(key)):
                return True
        return False

    def _bounds(self, dim: Dim) -> _Bounds | None:
        """Return what a dimension is at most; None where nothing is known."""
        if isinstance(dim, int):
            return {frozenset(): max(1, dim)}
        match dim:
            case tirx.Var():
                return self._named.get(dim, _alone(dim))
            case tirx.IntImm():
                return {frozenset(): max(1, abs(int(dim.value)))}
            case tirx.Cast():
                return self._bounds(dim.value)
            case tirx.FloorDiv() | tirx.Div() | tirx.FloorMod() | tirx.Mod():
                return self._bounds(dim.a)
            case tirx.Max():
                return _largest(self._bounds(dim.a), self._bounds(dim.b))
            case tirx.Select():
                return _largest(self._bounds(dim.true_value), self._bounds(dim.false_value))
            case tirx.Min():
                one = self._bounds(dim.a)
                return self._bounds(dim.b) if one is None else one
            case tirx.Add() | tirx.Sub():
                return _sums(self._bounds(dim.a), self._bounds(dim.b))
            case tirx.Mul():
                return _products(self._bounds(dim.a), self._bounds(dim.b))
        return None


def _alone(symbol: tirx.Var) -> _Bounds:
    return {frozenset([(symbol, 1)]): 1}


def _largest(one: _Bounds | None, other: _Bounds | None) -> _Bounds | None:
    """Return bounds of the larger one of two sizes."""
    if one is None or other is None or len(one) + len(other) > _MOST:
        return None
    return {symbols: max(one.get(symbols, 0), other.get(symbols, 0)) for symbols in (*one, *other)}


def _sums(one: _Bounds | None, other: _Bounds | None) -> _Bounds | None:
    """Return bounds of a sum: of what is the larger part at most twice that part, if the parts are not multiples."""
    if one is None or other is None or len(one) * len(other) > _MOST:
        return None
    found: _Bounds = {}
    for (some, number), (others, another) in itertools.product(one.items(), other.items()):
        if some == others or not some or not others:
            parts = [(some or others, number + another)]
        else:
            parts = [(some, 2 * number), (others, 2 * another)]
        for symbols, size in parts:
            found[symbols] = max(size, found.get(symbols, 0))
    return found


def _products(one: _Bounds | None, other: _Bounds | None) -> _Bounds | None:
    """Return bounds of a product."""
    if one is None or other is None or len(one) * len(other) > _MOST:
        return None
    found: _Bounds = {}
    for (some, number), (others, another) in itertools.product(one.items(), other.items()):
        symbols = (
            frozenset((Symbols(dict(some)) + Symbols(dict(others))).items()) if some and others else some or others
        )
        found[symbols] = max(number * another, found.get(symbols, 0))
    return found


def _element_bytes(dtype: str) -> int:
    return max(1, tvm.DataType(dtype).bits // 8)
