"""Functions that compute sizes: what they read and write are places of the shape heap that they are given.

Programs compute the same sizes of one tensor after another. Computations that differ in the places alone are one
function, which takes the places as numbers: each function takes a fixed time to compile, whatever is in it.

Sizes that a kernel has found are in a tensor, which the function that computes others of them reads: the VM would make
a shape of the tensor, and store what is in that. What a check asks of sizes it asks, too, where :mod:`.size_slots` says
so; the VM would make a shape of the sizes, and compare that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm import ir, tirx

from .._dataclasses import dataclass
from .._tvm import retyped
from ..relay.ir.dims import structural_key
from ..relay.lower.checks import says_values
from .guards import with_divisors
from .rewrite import substituted, variables_in

__all__ = ["Asked", "Computation", "SizeFunctions"]

_MOST_SHARED = 16
"""Places that a function takes as numbers at most: each costs the machine time at each call."""

_MOST_AT_ONCE = 256
"""Sizes that one function computes at most. LLVM takes more than twice as long for twice as many."""

Place = Callable[[ir.Expr], int]


@dataclass(frozen=True)
class Asked:
    """What is asked of sizes: that one is another, or the check of a number fails."""

    actual: ir.Expr
    expected: ir.Expr
    number: int


class Computation:
    """Sizes that are computed at one point of a program, and what is asked of them there.

    Parameters
    ----------
    sizes
        What is computed.
    read
        Symbols that a tensor holds, which is given behind the heap.
    asked
        What is asked of sizes, in the order in which it is said.

    Attributes
    ----------
    symbols : list of Var
        What they are computed from, those that are read first.
    key : StructuralKey or None
        The function that takes the places of the symbols, and then of the sizes; None where those are too many.
    """

    def __init__(self, sizes: Sequence[ir.Expr], read: Sequence[ir.Var] = (), asked: Sequence[Asked] = ()) -> None:
        self.sizes, self.read, self.asked = sizes, read, asked
        compared = [size for each in asked for size in (each.actual, each.expected)]
        self.symbols = list(dict.fromkeys([*read, *variables_in(*sizes, *compared)]))
        count = len(self.symbols)
        self.key: tvm_ffi.StructuralKey | None = None
        if count + len(sizes) <= _MOST_SHARED:
            numbers = [tirx.Var(f"at{k}", "int64") for k in range(count + len(sizes))]
            function = self.function(numbers, numbers, tirx.Var("places", "int64"))
            self.key = structural_key(function)

    def function(self, params: Sequence[ir.Var], places: Sequence[ir.Expr], heap: int | ir.Expr) -> tirx.PrimFunc:
        """Return the function, of further parameters, for places of the symbols, and then of the sizes, on a heap."""
        buffer = tirx.decl_buffer((heap,), "int64", "H", layout=None)
        count = len(self.read)
        tensors = [tirx.decl_buffer((count,), "int64", "found", layout=None)] if count else []
        at = dict(zip(self.symbols, places, strict=False))
        values = {symbol: tirx.BufferLoad(buffer, [place]) for symbol, place in at.items()}
        values.update({s: tirx.BufferLoad(tensors[0], [tirx.IntImm("int64", k)]) for k, s in enumerate(self.read)})
        # A run may make a size 0 by which others are divided.
        computed = [substituted(with_divisors(size), values) for size in self.sizes]
        body: list[tirx.Stmt] = [tirx.BufferStore(buffer, values[symbol], [at[symbol]]) for symbol in self.read]
        for each in self.asked:
            actual, expected = (substituted(with_divisors(s), values) for s in (each.actual, each.expected))
            body.append(_comparison(actual, expected, each.number, buffer))
        stored = zip(computed, places[len(self.symbols) :], strict=True)
        body += [tirx.BufferStore(buffer, size, [place]) for size, place in stored]
        attrs = tvm.ir.make_node("ir.DictAttrs", **{"s_tir": True, "tirx.is_host_func": True})
        statement = body[0] if len(body) == 1 else tirx.SeqStmt(body)
        return tirx.PrimFunc([buffer, *tensors, *params], statement, None, attrs)


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

    def prepared(
        self, sizes: Sequence[ir.Expr], read: Sequence[ir.Var] = (), asked: Sequence[Asked] = ()
    ) -> list[Computation]:
        """Return what computes sizes, of which :meth:`call` makes functions when all of the module are prepared.

        The first of them reads those that a tensor holds, and asks what is asked.
        """
        first, *others = [sizes[at : at + _MOST_AT_ONCE] for at in range(0, len(sizes), _MOST_AT_ONCE)] or [[]]
        made = [Computation(first, read, asked), *map(Computation, others)]
        self._alike.update(each.key for each in made if each.key is not None)
        return made

    def call(self, computation: Computation, place: Place, heap: int) -> tuple[ir.GlobalVar, list[int]]:
        """Return the function of a computation, and the places that it is to be given behind the heap and the tensor.

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
        places = [tirx.IntImm("int64", place(each)) for each in (*symbols, *sizes)]
        return self._add(computation.function([], places, heap)), []

    def _add(self, function: tirx.PrimFunc) -> ir.GlobalVar:
        count = len(self.made)
        names = (f"shape_func{k or ''}" for k in range(count, count + len(self._names) + 1))
        name = next(each for each in names if each not in self._names)
        gvar = retyped(ir.GlobalVar(name), function.ty)
        self._names.add(name)
        self.made[gvar] = function
        return gvar


def _comparison(actual: ir.Expr, expected: ir.Expr, number: int, heap: ir.Var) -> tirx.Stmt:
    """Return what fails where a size is not another; the error has the number, and the sizes if its text does."""
    if not says_values(number):
        text = [ir.StringImm(f"check (0 vs. 1) {number}")]
        return tirx.AssertStmt(actual == expected, ir.StringImm("RuntimeError"), text)
    context = f"ErrorContext(check {number}) "
    fails = tirx.call_packed("vm.builtin.match_prim_value", actual, heap, tirx.IntImm("int32", 0), expected, context)
    return tirx.IfThenElse(actual != expected, tirx.Evaluate(fails), None)
