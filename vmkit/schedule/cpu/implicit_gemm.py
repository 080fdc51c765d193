"""The rule for convolutions over data with channels first: an implicit GEMM of the weight and what the windows see.

Vectors go along the lines of the result, or along all of its positions where windows are single elements. Each element
of the weight is multiplied with a vector of what the windows see at one of their steps, which is read where it is, or
from a panel where many channels of the result need it or where it is not in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from tvm import s_tir
from tvm.target import Target

from ...target.processor import processor_of
from ...target.vectors import VectorUnit
from ..expressions import known
from ..rule import Options, Rule, choices
from .convolution_kernel import kernel_of
from .convolution_loops import ConvolutionLoops, Decisions, columns_of, lanes_of
from .elementwise import PARALLEL_SIZE, schedule_spatial
from .products import MOST_VECTORS, fits, tile_size
from .shared_lines import LineWindows, line_tile, line_windows_of, lines_fit
from .stages import block_of, is_chain, is_in, nests_of, with_nests

__all__ = ["RULE", "Decisions"]

_REUSED = 3  # tiles of rows that repay the copy of a panel
_SPACED = 4  # how far apart columns may be that are read in vectors
_SPACED_IF_UNKNOWN = 6  # the same of sizes that only the run knows, which leave no other way
_LEAST = 4  # columns that are worth vectors
_USUAL = 64  # a size that is known at run time only


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a convolution over data with channels first."""
    kernel = kernel_of(sch)
    if kernel is None:
        return None
    processor = processor_of(target)
    line, channels = kernel.line, known(kernel.rows)
    is_known = all(known(size) is not None for size in kernel.positions)
    spaced = _SPACED if is_known else _SPACED_IF_UNKNOWN
    gathered = kernel.spacing > spaced or (line is not None and line < _LEAST)
    if gathered and not is_known:
        return None  # where a column is would take divisions by sizes that are not known
    columns = columns_of(kernel, gathered, processor.vectors)
    rows, vectors = tile_size(channels, known(columns), lanes_of(kernel, gathered, processor.vectors), processor)
    packed = gathered or channels is None or channels >= _REUSED * rows
    size = prod(known(size) or _USUAL for size in kernel.sizes)
    decisions = Decisions(rows, vectors, packed, gathered, size >= PARALLEL_SIZE)
    windows = line_windows_of(kernel) if not gathered else None
    tile = line_tile(windows, lanes_of(kernel, gathered, processor.vectors), processor.vectors) if windows else None
    return decisions if tile is None else replace(decisions, lines=tile[0], vectors=tile[1])


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles that fit into the registers beside what they are computed from."""
    kernel, default, unit = kernel_of(sch), decide(sch, target), processor_of(target).vectors
    if kernel is None or default is None:
        return ()
    channels = known(kernel.rows)
    options: Options = {
        "rows": [r for r in range(1, unit.registers) if channels is None or r <= channels],
        "vectors": list(range(1, MOST_VECTORS + 1)),
        "packed": [True] if default.gathered else [False, True],
        "lines": [1],
    }
    windows = line_windows_of(kernel) if default.lines > 1 else None
    if windows is not None:
        options = {**options, "packed": [False], "lines": list(range(1, windows.lines + 1))}
    tried = choices(Decisions, default, options)
    return (d for d in tried if d == default or _fits(d, windows, unit))


def _fits(decisions: Decisions, windows: LineWindows | None, unit: VectorUnit) -> bool:
    """Say whether a tile fits into the registers beside what it is computed from."""
    if windows is not None and decisions.lines > 1:
        return lines_fit(windows, decisions.lines, decisions.vectors, unit)
    return fits(decisions.rows, decisions.vectors, unit)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a convolution."""
    kernel = kernel_of(sch)
    assert kernel is not None
    found = kernel.found
    follows = [] if found.after is None else [found.after]
    is_fused = is_chain(kernel.node, [sch.get(block) for block in follows])
    made = next((b for b in found.others if sch.get(b).writes[0].source.same_as(kernel.data.source)), None)
    stages = [sch.get(block) for block in follows] if is_fused else []
    stage = None if made is None else sch.get(made)
    writer = ConvolutionLoops(kernel, stage, stages, decisions, processor_of(target).vectors)
    for other in [*found.others, *([] if is_fused else follows)]:
        if writer.near is None or other is not made:
            schedule_spatial(sch, other)
    function, node = sch.mod["main"], sch.get(found.block)
    root, nests = function.body.block, nests_of(function)
    loops = writer.written()
    # What follows the sum may read what is computed between them: all of it goes where the last of it was.
    parts = [node, *stages, *([] if writer.near is None or stage is None else [stage])]
    at = next(i for i, nest in enumerate(nests) if block_of(nest).same_as([node, *stages][-1]))
    before, after = ([n for n in some if not is_in(block_of(n), parts)] for some in (nests[:at], nests[at + 1 :]))
    gone = [part.writes[0].source for part in parts if not part.same_as([node, *stages][-1])]
    body = with_nests(root, [*before, loops, *after], gone)
    sch.state.replace(sch.get_sref(sch.get_sblock(root.name_hint)), body)


RULE = Rule("implicit_gemm", Decisions, decide, candidates, apply)
