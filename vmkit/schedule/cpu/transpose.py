"""The rule for maps that read along another axis than they write: transposes, changes of layout.

The output's last axis is far apart in the input, so in plain order every element read brings a line of cache of its
own, and where its distance is a power of two the lines evict each other before their neighbours are read. Tiles of
the two axes use all of a line while it is near: an output vector is gathered, several of them from the same lines.

Which way the next tile lies matters as much: along the output's last axis each tile reads other lines and goes on in
those that it writes, along the input's the other way round. The way is taken whose lines stay in the first cache until
they are used up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import CACHES, PAGE, Caches, Processor, processor_of
from ...target.vectors import GATHERED
from ..blocks import Loop, extent, is_reduction, kernel_blocks, static_size
from ..expressions import known, stride, uses
from ..rule import Options, Rule, Versions, choices
from .elementwise import PARALLEL_SIZE, sharing
from .flattening import flattened
from .shared_versions import shared_by_size
from .squares import mark_squares

__all__ = ["RULE", "Decisions"]

_LEAST = 4  # elements of an axis of the input below which its lines are used up anyway
_SIDES = {8: 16, 16: 8}  # of a square in registers of 128 bits, by the bits of an element
_MOST = 8  # the side of a larger element's
# The same where vectors are that long, of as many elements as are worth compiling four times the code.
_MOST_OF_LARGE, _LARGE = 16, 1 << 18

# What whole lines count as that are fetched ahead. Lines that are written lie nearer than those that are read: one that
# goes before it is full is fetched again and written twice.
_WHOLE, _NEAR = 2.0, PAGE // 8 + 1


@dataclass(frozen=True)
class Decisions:
    """How a transpose is computed.

    Attributes
    ----------
    columns : int
        How many elements of the output's last axis a tile has.
    lanes : int
        How many of them are written at once; they divide the columns and the rows, of which a square is transposed in
        registers where one operand alone lies across.
    rows : int
        How many elements of the input's last axis a tile has.
    is_along : bool
        Whether the next tile is along the output's last axis, not the input's.
    parallel : bool
        Whether tiles are shared among cores.
    """

    columns: int
    lanes: int
    rows: int
    is_along: bool
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    loops: list[Loop]
    near: int  # which loop goes along the input
    read: int | None  # elements between neighbours of the output's last axis in what is read across
    written: int | None  # and between those of the input's last axis in the output
    distances: tuple[tirx.Expr, tirx.Expr] | None  # both once more, as sizes say: of what is written, of what is read
    bits: int  # of the widest element that is read or written


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a map with an operand whose last axis is not the output's."""
    sch = flattened(sch)
    kernel = _kernel(sch)
    if kernel is None:
        return None
    here, there = extent(sch, kernel.loops[-1]), extent(sch, kernel.loops[kernel.near])
    least = min(here or GATHERED, there or GATHERED)
    if least < _LEAST:
        return None
    side = _side(sch, kernel, target)
    while side > min(here or side, there or side):
        side //= 2
    line = max(side, CACHES.line * 8 // kernel.bits)
    parallel = static_size(sch, kernel.loops) >= PARALLEL_SIZE
    columns, rows = _whole(here, line, side), _whole(there, line, side)
    processor = processor_of(target)
    is_along = _is_along(sch, kernel, rows, columns, processor)
    if is_along:
        rows = _wider(there, line, side, rows)
    else:
        columns = _wider(here, line, side, columns)
    unit = max(1, kernel.bits // 8)
    apart = kernel.read * unit if kernel.read is not None else PAGE
    few = processor.caches.lines_apart(kernel.written * unit if kernel.written is not None else PAGE)
    is_near = apart < _NEAR * max(1, rows // few // 2)
    if kernel.written is not None:
        if few <= rows and is_near:
            # Of more lines than stay none is full before it goes. What is read lies near, and is fetched again ahead.
            side, is_along = min(side, few), True
            rows = few // side * side
    elif is_near or (here and _crowding(here, apart, side * unit, processor.caches, PAGE) <= 1):
        # Lines that are written may lie pages apart, where few stay; those of a short walk are still there to go on in.
        rows = side
    return Decisions(columns, side, rows, is_along, parallel)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles of a quarter of a vector to two vectors."""
    sch = flattened(sch)
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    sizes = [4, 8, 16, 32, 64]
    here, there = extent(sch, kernel.loops[-1]), extent(sch, kernel.loops[kernel.near])
    options: Options = {
        "columns": [size for size in sizes if size <= (here or size)],
        "lanes": [4, 8, 16],
        "rows": [size for size in sizes if size <= (there or size)],
        "is_along": [False, True],
        "parallel": sharing(static_size(sch, kernel.loops), target),
    }
    return (d for d in choices(Decisions, default, options) if d.columns % d.lanes == d.rows % d.lanes == 0)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule:
    """Schedule a transpose."""
    sch = flattened(sch)
    kernel = _kernel(sch)
    assert kernel is not None
    near, last = kernel.loops[kernel.near], kernel.loops[-1]
    others = [loop for at, loop in enumerate(kernel.loops[:-1]) if at != kernel.near]
    sizes = {"rows": (extent(sch, near), decisions.rows), "columns": (extent(sch, last), decisions.columns)}
    rows, row = sch.split(near, [None, decisions.rows])
    columns, column = sch.split(last, [None, decisions.columns])
    parts = {"rows": rows, "columns": columns}
    names = ["rows", "columns"] if decisions.is_along else ["columns", "rows"]
    across, row = sch.split(row, [None, decisions.lanes])
    vector, lane = sch.split(column, [None, decisions.lanes])
    sch.reorder(*others, *(parts[name] for name in names), across, vector, row, lane)
    sch.unroll(row)
    sch.vectorize(lane)
    mark_squares(sch, row, decisions.lanes)
    # Tiles that overlap are no loop to share.
    size, tile = sizes[names[0]]
    shared = [*others, parts[names[0]]] if size is not None and size % tile == 0 else others
    if decisions.parallel and shared:
        sch.parallel(sch.fuse(*shared))
    return sch


def spare_versions(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> Versions[Decisions] | None:
    """Return a version that writes few lines at a time where they lie pages apart; None where that is decided already.

    How far apart lines are that are written only the sizes of a call say: a row of 8192 bytes is two pages.
    """
    sch = flattened(sch)
    kernel = _kernel(sch)
    if kernel is None or kernel.written is not None or not decisions.is_along:
        return None
    caches, unit = processor_of(target).caches, max(1, kernel.bits // 8)
    apart = next((each for each in (PAGE // 2, PAGE) if caches.lines_apart(each) < decisions.rows), None)
    if apart is None or kernel.distances is None:
        return None
    written, read = (distance * unit for distance in kernel.distances)
    side = min(decisions.lanes, caches.lines_apart(PAGE))
    few = replace(decisions, lanes=side, rows=side)
    near = _NEAR * max(1, decisions.rows // caches.lines_apart(apart) // 2)
    is_crowded = tirx.all(tirx.FloorMod(written, tirx.IntImm("int64", apart)) == 0, read < near)
    together = shared_by_size(sch, target, decisions)
    if together is None:
        return tirx.Select(is_crowded, _int64(1), _int64(0)), [(1, few), (0, decisions)]
    elements, least, shared = together
    size = tirx.Select(is_crowded, _int64(2), _int64(0)) + tirx.Select(elements >= least, _int64(1), _int64(0))
    return size, [(3, replace(few, parallel=True)), (2, few), (1, shared), (0, decisions)]


def _int64(value: int) -> tirx.IntImm:
    return tirx.IntImm("int64", value)


def _side(sch: s_tir.Schedule, kernel: _Kernel, target: Target) -> int:
    """Return the side of the squares that are transposed in registers."""
    width = processor_of(target).vectors.lanes * 32
    is_large = None not in [extent(sch, loop) for loop in kernel.loops] and static_size(sch, kernel.loops) >= _LARGE
    return _SIDES.get(kernel.bits, min(_MOST_OF_LARGE if is_large else _MOST, width // kernel.bits))


def _is_along(sch: s_tir.Schedule, kernel: _Kernel, rows: int, columns: int, processor: Processor) -> bool:
    """Say whether the next tile is to lie along the output's last axis: true also of axes of unknown sizes."""
    here, there = extent(sch, kernel.loops[-1]), extent(sch, kernel.loops[kernel.near])
    if here is None or there is None or kernel.read is None or kernel.written is None:
        return True
    others = [extent(sch, loop) for at, loop in enumerate(kernel.loops[:-1]) if at != kernel.near]
    if processor.cores > 1 and all(size == 1 for size in others) and here % columns and there % rows == 0:
        return True  # the other way has no loop that cores could share
    caches, unit = processor.caches, max(1, kernel.bits // 8)
    reading = _crowding(here, kernel.read * unit, rows * unit, caches, PAGE)
    return reading <= _crowding(there, kernel.written * unit, columns * unit, caches, _NEAR)


def _crowding(count: int, apart: int, used: int, caches: Caches, near: int) -> float:
    """Return how many times as many lines as the first cache holds would have to stay there.

    A walk over `count` lines, so many bytes `apart`, uses `used` bytes of each and comes back for the rest. Of whole
    lines none has to stay: less than `near` apart, the processor fetches the next before it is asked for.
    """
    visits = max(1.0, caches.line / used)
    crowding = visits * count / caches.lines_apart(apart)
    return min(crowding, _WHOLE) if visits == 1 and apart < near else crowding


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
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
    return _Kernel(loops, at, of_read, of_written, distances, max(8, *bits))


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


def _whole(size: int | None, most: int, side: int) -> int:
    """Return how many sides of squares a tile has: one that divides the axis, and fills a line where it can."""
    while size is not None and most > side and size % most:
        most //= 2
    return most


def _wider(size: int | None, line: int, side: int, tile: int) -> int:
    """Return how many elements a tile has across the way to the next: lines of two squares where none divides the axis.

    They take no more than one square more than there are; what is written or read beside them comes once.
    """
    if size is None or size % side == 0 or line != 2 * side:
        return tile
    return line if -size % line - -size % side <= side else tile


RULE = Rule("transpose", Decisions, decide, candidates, apply, spare_versions=spare_versions)
