"""A map that reads along another axis than it writes, as a kernel: which loops go along what, and how far apart."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..blocks import Loop, extent, is_reduction, kernel_blocks
from ..expressions import known, stride, uses

__all__ = ["TransposeKernel", "kernel_of"]


@dataclass(frozen=True)
class TransposeKernel:
    """The loops of a transpose, and distances in its operands."""

    loops: list[Loop]
    near: int  # which loop goes along the input
    read: int | None  # elements between neighbours of the output's last axis in what is read across
    written: int | None  # and between those of the input's last axis in the output
    distances: tuple[tirx.Expr, tirx.Expr] | None  # both once more, as sizes say: of what is written, of what is read
    bits: int  # of the widest element that is read or written


def kernel_of(sch: s_tir.Schedule) -> TransposeKernel | None:
    """Return a transpose; None of any other kernel."""
    blocks = kernel_blocks(sch)
    if len(blocks) != 1 or is_reduction(sch, blocks[0]):
        return None
    node, loops = sch.get(blocks[0]), sch.get_loops(blocks[0])
    if len(loops) != len(node.iter_vars) or len(loops) < 2 or len(node.writes) != 1:
        return None
    variables = [v.var for v in node.iter_vars]
    written = [r.min for r in node.writes[0].region]
    if not (written and written[-1].same_as(variables[-1])):
        return None
    near = [_near(region, variables, loops, sch) for region in node.reads]
    found = {at for at in near if at is not None}
    if len(found) != 1:
        return None
    at = found.pop()
    bits = [tvm.DataType(str(r.source.ty.dtype)).bits for r in (*node.reads, *node.writes)]
    across, apart = _apart(node.reads[near.index(at)], variables[-1]), _apart(node.writes[0], variables[at])
    distances = None if across is None or apart is None else (apart, across)
    of_read, of_written = (None if each is None else known(each) for each in (across, apart))
    return TransposeKernel(loops, at, of_read, of_written, distances, max(8, *bits))


def _apart(region: tirx.BufferRegion, variable: tirx.Var) -> tirx.Expr | None:
    """Return how many elements neighbours along an axis lie apart; None where that differs."""
    apart, inner = _int64(0), _int64(1)
    for place, size in zip(reversed(region.region), reversed(region.source.ty.shape), strict=True):
        steps = stride(place.min, variable)
        if steps is None:
            return None
        apart = apart + steps * inner
        inner = inner * size.astype("int64")
    return Analyzer().simplify(apart)


def _near(region: tirx.BufferRegion, variables: list[tirx.Var], loops: list[Loop], sch: s_tir.Schedule) -> int | None:
    """Return the one loop that goes along the last axis of an operand, if the last loop goes along another."""
    if not (indices := _without_units(region)):
        return None
    *far, index = indices
    last = variables[-1]
    # Sub-pixels of the output's last axis may lie apart in the operand's; what goes along the two still differs.
    if (uses(index, last) and not _is_of_remainders(index, last)) or not any(uses(each, last) for each in far):
        return None
    varying = [at for at, v in enumerate(variables[:-1]) if uses(index, v) and extent(sch, loops[at]) != 1]
    along = [at for at in varying if not _is_of_remainders(index, variables[at])]
    is_step = len(along) == 1 and stride(index, variables[along[0]]) == 1
    return along[0] if is_step and not any(uses(each, variables[along[0]]) for each in far) else None


def _is_of_remainders(index: tirx.Expr, variable: tirx.Var) -> bool:
    """Say whether an index depends on remainders of a variable alone."""
    others = tvm_ffi.structural_map(index, (tirx.FloorMod, lambda rest: tirx.IntImm(str(rest.ty.dtype), 0)))
    return uses(index, variable) and not uses(others, variable)


def _without_units(region: tirx.BufferRegion) -> list[tirx.Expr]:
    """Return the indices of an operand, without those of axes of size 1."""
    pairs = zip(region.region, region.source.ty.shape, strict=True)
    return [r.min for r, d in pairs if not Analyzer().can_prove_equal(d, 1)]


def _int64(value: int) -> tirx.IntImm:
    return tirx.IntImm("int64", value)
