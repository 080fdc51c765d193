"""An index of a buffer as the place where a tile begins, and the steps of the loops within the tile."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add

import tvm
import tvm_ffi
from tvm import tirx

from ..._dataclasses import dataclass
from ..expressions import known

__all__ = ["TileIndex", "tile_index", "variables_of"]


@dataclass(frozen=True)
class TileIndex:
    """An index as the sum of a place that is the same in all of a tile, and of steps of the loops within the tile."""

    begin: tuple[tirx.Expr, ...]
    steps: Mapping[tirx.Var, int]

    def begins_as(self, other: TileIndex) -> bool:
        """Say whether another index begins at the same place."""
        pairs = list(zip(self.begin, other.begin, strict=False))
        return len(self.begin) == len(other.begin) and all(tvm_ffi.structural_equal(a, b) for a, b in pairs)

    def size(self, within: Mapping[tirx.Var, int]) -> int:
        """Return how far the loops within the tile, of the extents given, go."""
        return 1 + sum(step * (within[var] - 1) for var, step in self.steps.items())

    def after(self, begin: tirx.Expr | None, dtype: str) -> tirx.Expr:
        """Return the steps from another place, or from 0."""
        terms = [] if begin is None else [begin]
        terms += [var if step == 1 else var * tirx.IntImm(dtype, step) for var, step in self.steps.items()]
        return reduce(add, terms) if terms else tirx.IntImm(dtype, 0)


def tile_index(index: tirx.Expr, within: Mapping[tirx.Var, int]) -> TileIndex | None:
    """Return an index as a place and steps; None where it is no sum of such."""
    steps: dict[tirx.Var, int] = {}
    begin: list[tirx.Expr] = []

    def collect(term: tirx.Expr, factor: int) -> bool:
        match term:
            case tirx.Add():
                return collect(term.a, factor) and collect(term.b, factor)
            case tirx.Mul() if known(term.b) is not None and any(var in within for var in variables_of(term.a)):
                return collect(term.a, factor * int(term.b))
            case tirx.Var() if term in within:
                if within[term] > 1:
                    steps[term] = steps.get(term, 0) + factor
                return True
        if any(var in within and within[var] > 1 for var in variables_of(term)):
            return False
        if known(term) != 0:
            begin.append(term if factor == 1 else term * tirx.IntImm(str(term.ty.dtype), factor))
        return True

    is_sum = collect(index, 1) and all(step > 0 for step in steps.values())
    return TileIndex(tuple(begin), steps) if is_sum else None


def variables_of(node: tirx.Expr) -> list[tirx.Var]:
    """Return the variables of an expression, each as often as it is used."""
    found: list[tirx.Var] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Var, found.append))
    return found
