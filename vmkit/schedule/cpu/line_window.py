"""The rule for windows that go along the last axis by steps, or over edges: pools of images whose channels come first.

Vectors along the last axis would gather every second element for each element of the window, or test where it ends.
Here what goes across lines is reduced first, which reads whole lines in vectors, and what that leaves for a line of
results, which stays in the nearest cache, is reduced along it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import s_tir
from tvm.target import Target

from ..._dataclasses import dataclass
from ..._tvm import unchecked_schedule
from ...target.processor import processor_of
from ..blocks import Loop, extent, keep_on_stack, kernel_blocks, static_size
from ..expressions import known
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, sharing
from .line_stages import AFTER, LINES, LONG, PADDED, RESULTS, Window, window_of
from .overlap import tiles, tiles_of_any

__all__ = ["RULE", "Decisions"]


@dataclass(frozen=True)
class Decisions:
    """How windows are computed line by line.

    Attributes
    ----------
    lanes : int
        How many elements of a line are reduced at once.
    parallel : bool
        Whether lines of results are shared among cores.
    """

    lanes: int
    parallel: bool


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for windows of one operand that go along its last axis by steps, or over edges."""
    window = window_of(sch)
    if window is None or _is_plain(window) or not (window.step > 1 or _overlaps(window)):
        return None
    lanes = _lanes(window, target)
    size = static_size(sch, sch.get_loops(window.found.block))
    return Decisions(lanes[0], size >= PARALLEL_SIZE) if lanes else None


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with a vector, half of one and two of them."""
    window, default = window_of(sch), decide(sch, target)
    if window is None or default is None:
        return ()
    size = static_size(sch, sch.get_loops(window.found.block))
    options: Options = {"lanes": _lanes(window, target), "parallel": sharing(size, target)}
    return choices(Decisions, default, options)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule:
    """Schedule windows line by line."""
    window = window_of(sch)
    assert window is not None
    count, rows = len(window.lines), window.rows
    first = count + (rows > 1)  # of the loops along a line
    sch = unchecked_schedule(window.written(sch.mod["main"]))
    blocks = {sch.get(block).name_hint: block for block in kernel_blocks(sch)}
    for name in (LINES, PADDED):
        if name in blocks:
            keep_on_stack(sch, blocks[name], sch.get_loops(blocks[name])[count : first + 1])
    lines, steps = blocks.get(LINES), list[Loop]()
    if lines is not None:
        place, *steps = sch.get_loops(lines)[first:]
        place, lane = tiles_of_any(sch, place, decisions.lanes)
        sch.reorder(place, *steps, lane)
        sch.vectorize(lane)
    results = blocks[RESULTS]
    line = sch.get_loops(results)[first:]
    tile = _tile(window, line, sch, decisions.lanes)
    if tile:
        if AFTER in blocks:
            sch.reverse_compute_inline(blocks[AFTER])
        _, lane = tiles(sch, line[0], tile)
        sch.vectorize(lane)
    outer = sch.get_loops(results)[:count]
    if decisions.parallel:
        is_known = all(extent(sch, loop) for loop in outer)
        whole = [sch.fuse(*outer)] if is_known and len(outer) > 1 else outer
        sch.parallel(next((loop for loop in whole if extent(sch, loop) != 1), whole[0]))
    if lines is not None and steps:
        # What is left of a reduction once its start is apart no longer looks like one.
        sch.decompose_reduction(lines, steps[0])
    return sch


def _tile(window: Window, line: list[Loop], sch: s_tir.Schedule, lanes: int) -> int | None:
    """Return how many results of windows that go along a line one by one are computed at once."""
    size = extent(sch, line[0])
    if window.step != 1 or size is None or len(line) > 1:
        return None
    while lanes > size:
        lanes //= 2
    return lanes if lanes > 1 else None


def _overlaps(window: Window) -> bool:
    """Say whether neighbouring windows, which share most of what they read, reach over edges that would be tested."""
    return window.padding is not None and any(known(v.dom.extent) != 1 for v in window.across)


def _is_plain(window: Window) -> bool:
    """Say whether LLVM makes as good vectors of a window as it is: the largest of elements that no other window has."""
    if window.padding is not None or window.found.after is not None or len(window.across) > 1:
        return False
    is_known = all(known(v.dom.extent) for v in (*window.lines, window.last))
    is_long = (known(window.last.dom.extent) or 0) >= LONG  # shorter lines leave it most elements one by one
    return is_known and is_long and (known(window.along.dom.extent) or 0) <= window.step


def _lanes(window: Window, target: Target) -> list[int]:
    """Return how many elements may go together, the best number first: no more than a line has."""
    unit, width = processor_of(target).vectors.lanes, known(window.width)
    return [n for n in (unit, unit // 2, unit // 4, 2 * unit) if n > 1 and (width is None or n <= width)]


RULE = Rule("line_window", Decisions, decide, candidates, apply)
