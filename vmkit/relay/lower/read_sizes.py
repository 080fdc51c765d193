"""Sizes that a program reads from data are checked before anything of such a size is made, as are those that grow.

Dimensions of inputs are those of memory that is there; :mod:`.existing` says what follows from that. A number in a
tensor may be anything: a negative one, or one so large that the size of a tensor in bytes is not what its product gives
in 64 bits, and then the kernel would write beyond the memory that it is given.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Expr

from ..._dataclasses import dataclass
from ..._tvm.running import array_items
from ..ir import dims
from ..ir.types import LARGEST_COUNT, Dim
from .existing import Existing

__all__ = ["ReadSizes"]

_LARGEST_BITS = (1 << 63) - 1


@dataclass(frozen=True)
class _Admitted:
    """What is known where a shape was checked: the product of these sizes, each at least 1, is at most `most`."""

    factors: tuple[Dim, ...]
    most: int

    def implies(self, factors: Sequence[Dim], most: int) -> bool:
        left = list(self.factors)
        for factor in factors:
            same = next((each for each in left if dims.equal(each, factor)), None)
            if same is None:
                return False
            left.remove(same)
        return self.most <= most


@dataclass
class ReadSizes:
    """The symbols of a function that stand for numbers in tensors, and which shapes of them were checked."""

    symbols: set[tirx.Var] = field(default_factory=set)
    existing: Existing = field(default_factory=Existing)
    _admitted: dict[tvm_ffi.StructuralKey, list[_Admitted]] = field(default_factory=lambda: defaultdict(list))
    """What was checked, by each of the sizes in it."""
    _order: list[set[tvm_ffi.StructuralKey]] = field(default_factory=list)
    """The sizes of each check."""

    @contextlib.contextmanager
    def branch(self) -> Iterator[None]:
        """What is checked in a branch is not known behind it."""
        before = len(self._order)
        with self.existing.branch():
            yield
        while len(self._order) > before:
            for factor in self._order.pop():
                self._admitted[factor].pop()

    def add(self, symbols: Iterable[tirx.Var]) -> None:
        """Take symbols for numbers that may be anything."""
        self.symbols.update(symbols)

    def add_if_derived(self, symbol: tirx.Var, dim: Dim) -> None:
        """Take a symbol that stands for an expression for one of them, if one is in the expression."""
        self.existing.name(symbol, dim)
        if self._is_read(dim):
            self.symbols.add(symbol)

    def add_existing(self, ty: relax.Type) -> None:
        """Take the tensors of a value to be there."""
        for each in _tensors(ty):
            if isinstance(each.shape, relax.ShapeExpr):
                self.existing.add(str(each.dtype), [dims.simplify(d) for d in each.shape.values], is_given=True)

    def condition(self, ty: relax.Type) -> Expr | None:
        """Return what must hold before a value of a type is made; None where it does anyway.

        That holds from then on: another shape of the same sizes is not asked for again.
        """
        wanted = [found for found in map(self._wanted, _tensors(ty)) if found is not None]
        missing = [_condition(each.factors, each.most) for each in wanted if self._admit(each)]
        return tirx.all(*missing) if missing else None

    def _wanted(self, ty: relax.TensorType) -> _Admitted | None:
        """Return what is to be known of a tensor's sizes; None if none is read, and they cannot give too many."""
        if not isinstance(ty.shape, relax.ShapeExpr):
            return None
        shape: list[Dim] = [int(d) if isinstance(d, tirx.IntImm) else d for d in array_items(ty.shape.values)]
        if not any(map(self._is_read, shape)) and self.existing.admits(str(ty.dtype), shape):
            self.existing.add(str(ty.dtype), shape, is_given=False)
            return None
        shape = [dims.simplify(d) for d in shape]
        bits, factors = max(8, tvm.DataType(str(ty.dtype)).bits), list[Dim]()
        for factor in (each for dim in shape for each in dims.factors(dim)):
            if isinstance(factor, int):
                bits *= max(1, factor)
            else:
                factors.append(factor)
        return _Admitted(tuple(factors), min(LARGEST_COUNT, _LARGEST_BITS // bits))

    def _admit(self, wanted: _Admitted) -> bool:
        """Say whether a check is needed, which is taken to be made then."""
        factors = [dims.structural_key(dims.as_expr(factor)) for factor in wanted.factors]
        if any(each.implies(wanted.factors, wanted.most) for each in self._admitted[factors[0]]):
            return False
        self._order.append(set(factors))
        for factor in self._order[-1]:
            self._admitted[factor].append(wanted)
        return True

    def _is_read(self, dim: Dim) -> bool:
        return any(symbol in self.symbols for symbol in dims.symbols([dim]))


def _tensors(ty: relax.Type) -> list[relax.TensorType]:
    if isinstance(ty, relax.TupleType):
        return [each for one in ty.fields for each in _tensors(one)]
    return [ty] if isinstance(ty, relax.TensorType) else []


def _condition(factors: Sequence[Dim], most: int) -> Expr:
    """Return whether sizes are none of them negative, and their product is at most a number, without computing it.

    A size of 0 counts as 1: that nothing is in a tensor does not make its other sizes right.
    """
    # TVM takes a symbol for a size, which is not negative: what it would simplify away is asked of the unsigned number.
    within = [dims.int64(f).astype("uint64") <= tirx.IntImm("uint64", most) for f in factors]
    left: Expr = tirx.IntImm("int64", most)
    for factor in factors[:-1]:
        left = tirx.truncdiv(left, tirx.max(dims.int64(factor), tirx.IntImm("int64", 1)))
    return tirx.all(*within, *([dims.int64(factors[-1]) <= left] if len(factors) > 1 else []))
