"""The rule for windows over padded data that is read where it is: depthwise convolution and pooling with padding.

Copying the data to pad it costs as much as a small window itself, which pays only where windows overlap much and the
copy stays near. Here boundaries are peeled instead (:mod:`.boundary_peeling`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tvm import s_tir
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import Processor, processor_of
from ..blocks import loops_of_results, share_among_cores, static_size
from ..rule import Options, Rule, Versions, choices
from . import window
from .boundary_peeling import Boundaries, boundaries_of, mark_boundaries
from .elementwise import PARALLEL_SIZE, sharing
from .overlap import tiles
from .packed import rows_of_tile, rows_to_try
from .versions import for_one_row

__all__ = ["RULE", "Decisions"]

_ALONE = (4, 2, 1)  # vectors of a position by itself: what tests each is one vector for LLVM, or long to compile
_ROWS = 4  # positions in registers; what more of them have in common is in the nearest cache anyway


@dataclass(frozen=True)
class Decisions:
    """How windows with peeled boundaries are computed.

    Attributes
    ----------
    lanes : int
        How many elements go together along the last output axis; they divide it.
    rows : int
        How many positions a tile has, at most as many as there are.
    channels_last : bool
        Whether all channels of a tile are computed before the next tile; else all tiles of some channels.
    parallel : bool
        Whether lines are shared among cores.
    """

    lanes: int
    rows: int
    channels_last: bool
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    windows: window.Kernel
    boundaries: Boundaries


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for one window whose one other stage pads its data with what adds nothing."""
    kernel, processor = _kernel(sch), processor_of(target)
    lanes = window.lanes_of(sch, kernel.windows, processor.vectors) if kernel is not None else None
    if kernel is None or lanes is None or _shares_lines(sch, kernel, lanes, processor):
        return None
    rows = rows_of_tile(kernel.windows.positions, _ROWS)
    return Decisions(lanes, rows, True, static_size(sch, kernel.windows.loops) >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles that fit into the registers beside what they are computed from."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    unit, width = processor_of(target).vectors, kernel.windows.width
    options: Options = {
        "lanes": list(dict.fromkeys([default.lanes, *unit.vectors_in(width)])),
        "rows": rows_to_try(kernel.windows.positions, unit.registers - 2),
        "channels_last": [True, False],
        "parallel": sharing(static_size(sch, kernel.windows.loops), target),
    }
    tried = choices(Decisions, default, options)
    return (d for d in tried if d == default or (d.rows + 2) * unit.registers_for(d.lanes) <= unit.registers)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel of windows with peeled boundaries."""
    kernel = _kernel(sch)
    assert kernel is not None
    found, loops, row_axis = kernel.windows.found, kernel.windows.loops, kernel.windows.row_axis
    assert row_axis is not None
    sch.compute_inline(found.others[0])
    last, block = found.spatial - 1, found.block
    outer, reduction = loops[: found.spatial], loops[found.spatial :]
    channels, *sides, lane = window.split_channels(sch, outer[last], decisions.lanes)
    tile, row = tiles(sch, outer[row_axis], decisions.rows)
    within = [tile, channels] if decisions.channels_last else [channels, tile]
    order = [*outer[:row_axis], *outer[row_axis + 1 : last], *within]
    sch.reorder(*order, *reduction, row, *sides, lane)
    sch.vectorize(lane)
    for loop in (row, *sides):
        sch.unroll(loop)
    across = [loops[at] for at in kernel.boundaries.steps]
    # A line of a few positions has hardly any that reach over no edge, and each copy costs time to compile.
    is_cut = kernel.windows.positions is not None or decisions.rows > 1
    steps = kernel.windows.steps[-1]
    if is_cut and window.is_short(sch, steps) and not any(steps is each for each in across):
        sch.unroll(steps)
    written = loops_of_results(sch, found, order)
    window.vectorize_channels(sch, written[last], decisions.lanes)
    sch.unroll(written[row_axis])
    counts, is_any = kernel.boundaries.tiles(decisions.rows), _takes_any(kernel, decisions)
    mark_boundaries(sch, across, tile if is_cut else None, row_axis, counts, may_be_short=is_any)
    if decisions.parallel:
        shared = order[:-2]
        share_among_cores(sch, shared)
    sch.decompose_reduction(block, reduction[0])


def _shares_lines(sch: s_tir.Schedule, kernel: _Kernel, lanes: int, processor: Processor) -> bool:
    """Say whether a near copy pays: neighbouring windows have most in common, so each element is read many times."""
    return kernel.boundaries.stride == 1 and bool(window.lines_of(sch, kernel.windows, lanes, processor))


def versions(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> Versions[Decisions] | None:
    """Return versions for numbers of positions that are known at run time only."""
    kernel = _kernel(sch)
    assert kernel is not None
    axis = kernel.windows.row_axis
    if axis is not None and _takes_any(kernel, decisions):
        return sch.get(kernel.windows.loops[axis]).extent, [(1, decisions)]
    alone = replace(decisions, rows=1, lanes=window.lanes_alone(kernel.windows.width, decisions.lanes, _ALONE))
    return for_one_row(sch, None if axis is None else kernel.windows.loops[axis], decisions, alone)


def _takes_any(kernel: _Kernel, decisions: Decisions) -> bool:
    """Say whether tiles that test what they read are for lines of fewer positions, too.

    A version for these takes as long to compile as all tiles do. Of positions that are not there a tile reads nothing
    from beyond the line where it tests for its end.
    """
    return kernel.windows.positions is None and decisions.rows > 1 and kernel.boundaries.after > 0


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    windows = window.kernel_of(sch)
    if windows is None or windows.row_axis in (None, 0):
        return None
    boundaries = boundaries_of(sch, windows.found, windows.row_axis)
    return None if boundaries is None else _Kernel(windows, boundaries)


RULE = Rule("peeled_window", Decisions, decide, candidates, apply, versions)
