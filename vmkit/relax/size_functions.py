"""Functions that compute sizes: what they read and write are places of the shape heap that they are given.

Programs compute the same sizes of one tensor after another. Computations that differ in the places alone are one
function, which takes the places as numbers: each function takes a fixed time to compile, whatever is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import tvm
import tvm_ffi
from tvm import ir, tirx

from .._tvm import retyped
from ..relay.ir.dims import structural_key
from .guards import with_divisors
from .rewrite import substituted, variables_in

__all__ = ["Computation", "SizeFunctions"]

_MOST_SHARED = 16
"""Places that a function takes as numbers at most: each costs the machine time at each call."""

_MOST_AT_ONCE = 256
"""Sizes that one function computes at most. LLVM takes more than twice as long for twice as many."""

Place = Callable[[ir.Expr], int]


class Computation:
    """Sizes that are computed at one point of a program.

    Attributes
    ----------
    symbols : list of Var
        What they are computed from.
    key : StructuralKey or None
        The function that takes the places of the symbols, and then of the sizes; None where those are too many.
    """

    def __init__(self, sizes: Sequence[ir.Expr]) -> None:
        self.sizes = sizes
        self.symbols = list(dict.fromkeys(variables_in(*sizes)))
        count = len(self.symbols)
        self.key: tvm_ffi.StructuralKey | None = None
        if count + len(sizes) <= _MOST_SHARED:
            numbers = [tirx.Var(f"at{k}", "int64") for k in range(count + len(sizes))]
            at = dict(zip(self.symbols, numbers[:count], strict=True))
            function = _function(numbers, sizes, at, numbers[count:], tirx.Var("places", "int64"))
            self.key = structural_key(function)


class SizeFunctions:
    """The functions of a module that compute sizes.

    Parameters
    ----------
    names : sequence of str
        The names that the module's functions have.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.made: dict[ir.GlobalVar, tirx.PrimFunc] = {}
        self._names = set(names)
        self._alike: Counter[tvm_ffi.StructuralKey] = Counter()
        self._shared: dict[tvm_ffi.StructuralKey, ir.GlobalVar] = {}

    def prepared(self, sizes: Sequence[ir.Expr]) -> list[Computation]:
        """Return what computes sizes, of which :meth:`call` makes functions when all of the module are prepared."""
        parts = [sizes[at : at + _MOST_AT_ONCE] for at in range(0, len(sizes), _MOST_AT_ONCE)]
        made = [Computation(part) for part in parts]
        self._alike.update(each.key for each in made if each.key is not None)
        return made

    def call(self, computation: Computation, place: Place, heap: int) -> tuple[ir.GlobalVar, list[int]]:
        """Return the function of a computation, and the places that it is to be given behind the heap.

        Parameters
        ----------
        place : callable
            Returns the place of a size on the heap.
        heap : int
            How many sizes the heap holds.
        """
        key, symbols, sizes = computation.key, computation.symbols, computation.sizes
        if key is not None and self._alike[key] > 1:
            if key not in self._shared:
                self._shared[key] = self._add(key.key)
            return self._shared[key], [place(each) for each in (*symbols, *sizes)]
        at = {symbol: tirx.IntImm("int64", place(symbol)) for symbol in symbols}
        return self._add(_function([], sizes, at, [tirx.IntImm("int64", place(s)) for s in sizes], heap)), []

    def _add(self, function: tirx.PrimFunc) -> ir.GlobalVar:
        count = len(self.made)
        names = (f"shape_func{k or ''}" for k in range(count, count + len(self._names) + 1))
        name = next(each for each in names if each not in self._names)
        gvar = retyped(ir.GlobalVar(name), function.ty)
        self._names.add(name)
        self.made[gvar] = function
        return gvar


def _function(
    params: Sequence[ir.Var],
    sizes: Sequence[ir.Expr],
    reads: Mapping[ir.Var, ir.Expr],
    writes: Sequence[ir.Expr],
    heap: int | ir.Expr,
) -> tirx.PrimFunc:
    buffer = tirx.decl_buffer((heap,), "int64", "H", layout=None)
    values = {symbol: tirx.BufferLoad(buffer, [place]) for symbol, place in reads.items()}
    # A run may make a size 0 by which others are divided.
    computed = [substituted(with_divisors(size), values) for size in sizes]
    stores = [tirx.BufferStore(buffer, size, [place]) for size, place in zip(computed, writes, strict=True)]
    attrs = tvm.ir.make_node("ir.DictAttrs", **{"s_tir": True, "tirx.is_host_func": True})
    body = stores[0] if len(stores) == 1 else tirx.SeqStmt(stores)
    return tirx.PrimFunc([buffer, *params], body, None, attrs)
