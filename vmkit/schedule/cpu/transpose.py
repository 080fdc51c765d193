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

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import CACHES, PAGE, Caches, Processor, processor_of
from ...target.vectors import GATHERED
from ..blocks import extent, share_among_cores, static_size
from ..rule import Options, Rule, Versions, choices
from .elementwise import PARALLEL_SIZE, sharing
from .flattening import flattened
from .shared_versions import shared_by_size
from .squares import mark_squares
from .transpose_kernel import TransposeKernel, kernel_of

__all__ = ["RULE", "Decisions"]

_LEAST = 4  # elements of an axis of the input below which its lines are used up anyway
_SIDES = {8: 16, 16: 8}  # of a square in registers of 128 bits, by the bits of an element
_PART = 128  # bits of those registers, and of the parts of wider ones in which elements are shuffled
_REPEATED = 1.15  # of a row, computed with what the last vector has of the one before
_MOST = 8  # the side of a larger element's
# The same where vectors are that long, of as many elements as are worth compiling four times the code.
_MOST_OF_LARGE, _LARGE = 16, 1 << 18

# What whole lines count as that are fetched ahead. Lines that are written lie nearer than those that are read: one that
# goes before it is full is fetched again and written twice.
_WHOLE, _NEAR = 2.0, PAGE // 8 + 1
_MANY = 512  # elements of a line beside which those of one wide vector are few
_PAGES = 2048  # whose addresses a processor keeps: lines of more are slow to come from the second cache, too


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
    together : int
        How many squares side by side are transposed and written at once.
    """

    columns: int
    lanes: int
    rows: int
    is_along: bool
    parallel: bool
    together: int = 1


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a map with an operand whose last axis is not the output's."""
    sch = flattened(sch)
    kernel = kernel_of(sch)
    if kernel is None:
        return None
    here, there = extent(sch, kernel.loops[-1]), extent(sch, kernel.loops[kernel.near])
    least = min(here or GATHERED, there or GATHERED)
    if least < _LEAST:
        return None
    side, processor = _side(sch, kernel, target), processor_of(target)
    while side > min(here or side, there or side):
        side //= 2
    parallel = static_size(sch, kernel.loops) >= PARALLEL_SIZE
    line = max(side, CACHES.line * 8 // kernel.bits)
    columns, rows = _whole(here, line, side), _whole(there, line, side)
    together = _together(kernel, side, here, processor) if _is_large(sch, kernel) else 1
    if together > 1:
        few = rows + 1 if kernel.written is None else processor.caches.lines_apart(kernel.written * kernel.bits // 8)
        # Whole lines need not stay, but of many that lie pages apart none is fetched ahead: those of one square are.
        whole = Decisions(side * together, side, side, few < side, parallel, together)
        if (few > rows or few < side) and (not parallel or processor.cores == 1 or _is_shared(sch, kernel, whole)):
            return whole
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
        # What is read lies near, and is fetched again ahead, or is still in the second cache.
        stay = processor.caches.second_lines_apart(apart) // 2
        is_there = here is not None and here <= stay and here * apart <= _PAGES * PAGE
        if few <= rows and (is_near or is_there):
            # Of more lines than stay none is full before it goes.
            side, is_along = min(side, few), True
            rows = few // side * side
    elif is_near or (here and _crowding(here, apart, side * unit, processor.caches, PAGE) <= 1):
        # Lines that are written may lie pages apart, where few stay; those of a short walk are still there to go on in.
        rows = side
    return Decisions(columns, side, rows, is_along, parallel)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles of a quarter of a vector to two vectors."""
    sch = flattened(sch)
    kernel, default = kernel_of(sch), decide(sch, target)
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
    tried = choices(Decisions, default, options)
    return (d for d in tried if d == default or (d.columns % (d.lanes * d.together) == d.rows % d.lanes == 0))


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule:
    """Schedule a transpose."""
    sch = flattened(sch)
    kernel = kernel_of(sch)
    assert kernel is not None
    near, last = kernel.loops[kernel.near], kernel.loops[-1]
    others = [loop for at, loop in enumerate(kernel.loops[:-1]) if at != kernel.near]
    sizes = {"rows": (extent(sch, near), decisions.rows), "columns": (extent(sch, last), decisions.columns)}
    rows, row = sch.split(near, [None, decisions.rows])
    columns, column = sch.split(last, [None, decisions.columns])
    parts = {"rows": rows, "columns": columns}
    names = ["rows", "columns"] if decisions.is_along else ["columns", "rows"]
    across, row = sch.split(row, [None, decisions.lanes])
    vector, lane = sch.split(column, [None, decisions.lanes * decisions.together])
    sch.reorder(*others, *(parts[name] for name in names), across, vector, row, lane)
    sch.unroll(row)
    sch.vectorize(lane)
    mark_squares(sch, row, decisions.lanes)
    # Tiles that overlap are no loop to share.
    size, tile = sizes[names[0]]
    shared = [*others, parts[names[0]]] if size is not None and size % tile == 0 else others
    if decisions.parallel and shared:
        share_among_cores(sch, shared)
    return sch


def spare_versions(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> Versions[Decisions] | None:
    """Return a version that writes few lines at a time where they lie pages apart; None where that is decided already.

    How far apart lines are that are written, or read, only the sizes of a call say: a row of 8192 bytes is two pages.
    """
    sch = flattened(sch)
    kernel = kernel_of(sch)
    if kernel is None or kernel.distances is None or not decisions.is_along:
        return None
    is_known = kernel.written is not None
    if is_known and kernel.read is not None:
        return None
    caches, unit = processor_of(target).caches, max(1, kernel.bits // 8)
    distances = (kernel.written * unit,) if kernel.written is not None else (PAGE // 2, PAGE)
    apart = next((each for each in distances if caches.lines_apart(each) < decisions.rows), None)
    if apart is None:
        return None
    written, read = (distance * unit for distance in kernel.distances)
    side = min(decisions.lanes, caches.lines_apart(max(apart, PAGE)))
    few = replace(decisions, lanes=side, rows=side)
    near = _NEAR * max(1, decisions.rows // caches.lines_apart(apart) // 2)
    count = sch.get(kernel.loops[-1]).extent
    is_there = tirx.any(read < near, *_staying(count, read, caches))
    is_crowded = is_there if is_known else tirx.all(tirx.FloorMod(written, tirx.IntImm("int64", apart)) == 0, is_there)
    whole = _SIDES.get(kernel.bits, 0)
    together = _together(kernel, whole, _MANY, processor_of(target))
    if together > 1:
        few = replace(decisions, columns=whole * together, lanes=whole, rows=whole, together=together)
        is_crowded = tirx.all(is_crowded, count.astype("int64") >= _MANY)
    by_size = shared_by_size(sch, target, decisions)
    if by_size is None:
        return tirx.Select(is_crowded, _int64(1), _int64(0)), [(1, few), (0, decisions)]
    elements, least, shared = by_size
    size = tirx.Select(is_crowded, _int64(2), _int64(0)) + tirx.Select(elements >= least, _int64(1), _int64(0))
    return size, [(3, replace(few, parallel=True)), (2, few), (1, shared), (0, decisions)]


def _staying(count: tirx.Expr, apart: tirx.Expr, caches: Caches) -> list[tirx.Expr]:
    """Return when so many lines, so many bytes apart, stay in half of the second cache, by sizes of a call."""
    found = []
    for step in (2 * caches.line, PAGE // 4):
        most = _int64(caches.second_lines_apart(step // 2) // 2)
        is_spread = tirx.FloorMod(apart, _int64(step)) != 0
        found.append(tirx.all(is_spread, count.astype("int64") <= most, count.astype("int64") * apart <= _PAGES * PAGE))
    return found


def _int64(value: int) -> tirx.IntImm:
    return tirx.IntImm("int64", value)


def _together(kernel: TransposeKernel, side: int, columns: int | None, processor: Processor) -> int:
    """Return how many squares of narrow elements side by side fill a vector, which is a line of what is written.

    The next squares then go on in the lines that were read, which have to stay in the first cache.
    """
    count = processor.vectors.lanes * 32 // _PART
    if side * kernel.bits != _PART or kernel.read is None or columns is None:
        return 1
    width = side * count
    most = processor.caches.lines_apart(kernel.read * kernel.bits // 8)
    return count if width <= most and -(-columns // width) * width <= _REPEATED * columns else 1


def _is_shared(sch: s_tir.Schedule, kernel: TransposeKernel, decisions: Decisions) -> bool:
    """Say whether tiles have a loop that cores can share."""
    here, there = extent(sch, kernel.loops[-1]), extent(sch, kernel.loops[kernel.near])
    others = [extent(sch, loop) for at, loop in enumerate(kernel.loops[:-1]) if at != kernel.near]
    size, tile = (there, decisions.rows) if decisions.is_along else (here, decisions.columns)
    return any(other != 1 for other in others) or (size is not None and size % tile == 0)


def _side(sch: s_tir.Schedule, kernel: TransposeKernel, target: Target) -> int:
    """Return the side of the squares that are transposed in registers."""
    width = processor_of(target).vectors.lanes * 32
    is_large = _is_large(sch, kernel)
    return _SIDES.get(kernel.bits, min(_MOST_OF_LARGE if is_large else _MOST, width // kernel.bits))


def _is_large(sch: s_tir.Schedule, kernel: TransposeKernel) -> bool:
    return None not in [extent(sch, loop) for loop in kernel.loops] and static_size(sch, kernel.loops) >= _LARGE


def _is_along(sch: s_tir.Schedule, kernel: TransposeKernel, rows: int, columns: int, processor: Processor) -> bool:
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
