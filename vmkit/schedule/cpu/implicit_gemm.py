"""The rule for convolutions over data with channels first: an implicit GEMM of the weight and what the windows see.

Vectors go along the lines of the result, or along all of its positions where windows are single elements. Each element
of the weight is multiplied with a vector of what the windows see at one of their steps, which is read where it is, or
from a panel where many channels of the result need it or where it is not in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from math import log2, prod
from operator import mul

from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad
from ...kernels.builder import Size, T, in_parallel, in_register, integer, local, loop, ramp
from ...kernels.builder import kernel as written
from ...kernels.lanes import spaced
from ...kernels.product import Product, Tile, emit_product, place_of
from ...target.processor import processor_of
from ...target.vectors import VectorUnit
from ..expressions import known, replaced
from ..rule import Options, Rule, choices
from .convolution_kernel import ConvolutionKernel, is_in_order, kernel_of, near_stage
from .elementwise import PARALLEL_SIZE, schedule_spatial
from .products import MOST_VECTORS, fits, tile_size
from .stages import block_of, is_chain, is_in, nests_of, value_of, with_nests

__all__ = ["RULE", "Decisions"]

_REUSED = 3  # tiles of rows that repay the copy of a panel
_SPACED = 4  # how far apart columns may be that are read in vectors
_SPACED_IF_UNKNOWN = 6  # the same of sizes that only the run knows, which leave no other way
_LEAST = 4  # columns that are worth vectors
_USUAL = 64  # a size that is known at run time only

Place = Sequence[Size]


@dataclass(frozen=True)
class Decisions:
    """How a convolution is computed.

    Attributes
    ----------
    rows, vectors : int
        How many channels of how many vectors of positions are in registers.
    packed : bool
        Whether what windows see is copied into panels.
    gathered : bool
        Whether vectors go along all positions, element by element, else along lines.
    parallel : bool
        Whether tiles are shared among cores.
    """

    rows: int
    vectors: int
    packed: bool
    gathered: bool
    parallel: bool


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
    columns = _columns(kernel, gathered, processor.vectors)
    rows, vectors = tile_size(channels, known(columns), _lanes(kernel, gathered, processor.vectors), processor)
    packed = gathered or channels is None or channels >= _REUSED * rows
    size = prod(known(size) or _USUAL for size in kernel.sizes)
    return Decisions(rows, vectors, packed, gathered, size >= PARALLEL_SIZE)


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
    }
    tried = choices(Decisions, default, options)
    return (d for d in tried if d == default or fits(d.rows, d.vectors, unit))


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
    writer = _Loops(kernel, stage, stages, decisions, processor_of(target).vectors)
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


class _Loops:
    """The loops of a convolution and of the stages that follow it."""

    def __init__(
        self,
        kernel: ConvolutionKernel,
        stage: s_tir.SBlock | None,
        stages: Sequence[s_tir.SBlock],
        decisions: Decisions,
        unit: VectorUnit,
    ) -> None:
        self.kernel, self.stages, self.decisions, self.unit = kernel, stages, decisions, unit
        self.made = [kernel.node.writes[0].source, *(stage.body.buffer for stage in stages)]
        self.lanes = _lanes(kernel, decisions.gathered, unit)
        # Along lines of known length, tiles have vectors of several lines.
        self.is_of_all = kernel.is_flat or decisions.gathered or kernel.line is not None
        self.is_by_line = self.is_of_all and not (kernel.is_flat or decisions.gathered)
        self.near = near_stage(kernel, stage) if stage is not None else None
        self.base: Place = []
        self.source: tirx.Buffer | None = None
        self.is_plain = (kernel.is_flat or decisions.gathered) and all(is_in_order(s, kernel) for s in stages)

    def written(self) -> tirx.Stmt:
        """Return the loops."""
        kernel, d, lanes = self.kernel, self.decisions, self.lanes
        outer = [*kernel.sizes[: kernel.row]]
        if kernel.of_group is not None:
            outer.append(_divided(kernel.sizes[kernel.row], kernel.of_group))
        lines = [] if self.is_of_all else kernel.positions[:-1]
        product = Product(
            outer=lines if self.near is not None else [*outer, *lines],
            rows=kernel.rows,
            columns=_columns(kernel, d.gathered, self.unit),
            inner=reduce(mul, kernel.sizes[kernel.found.spatial :]),
            left=self.left,
            right=self.right,
            is_left_along=False,
            is_transposed=False,
            finish=self.finish,
            window=kernel.window,
            spot=self.position if d.gathered or self.is_by_line else None,
            is_gathered=d.gathered,
        )
        unrolled = next(u for u in (4, 2, 1) if (known(product.inner) or 1) % u == 0)
        is_shared = d.parallel and self.near is None
        whole = Tile(d.rows, d.vectors, lanes, unrolled, 1 << 20, d.packed, False, is_shared)
        tiles = [whole]
        if known(kernel.rows) is None and d.rows > 1:
            tiles.append(replace(whole, rows=1))
        if known(product.columns) is None and not self.is_by_line:
            tiles += [replace(tiles[-1], lanes=narrow, vectors=1) for narrow in (_LEAST, 1) if narrow < lanes]
        with written() as builder:
            if self.near is None:
                emit_product(product, tiles)
            else:
                with (in_parallel if d.parallel else loop)(reduce(mul, outer)) as work:
                    self.base = place_of(work, outer)
                    self.source = self.near.copied(self.base, kernel)
                    emit_product(product, tiles)
        return builder.get().body

    def before(self, place: Place) -> Place:
        """Return the axes of the result before the channels."""
        return [*self.base, *place][: self.kernel.row]

    def channel(self, place: Place, row: Size) -> Size:
        """Return a channel of the result."""
        kernel = self.kernel
        return row if kernel.of_group is None else [*self.base, *place][kernel.row] * kernel.of_group + row

    def axes(self, place: Place, row: Size, column: Size, lane: Size | None = None) -> list[Size]:
        """Return the axes of the result at a column, or a lane of the vector that begins there."""
        kernel = self.kernel
        axes: list[Size] = [*self.before(place), self.channel(place, row)]
        if not self.is_of_all:
            axes += [*place[len(place) - len(kernel.positions) + 1 :], column]
        elif self.is_plain:
            axes += [*[integer(0)] * (len(kernel.positions) - 1), column]
        elif self.is_by_line or lane is None:
            axes += self.position(column)
        else:
            return [*axes, *map(in_register, self.position(column + lane))]
        return axes if lane is None else [*axes[:-1], axes[-1] + lane]

    def position(self, column: Size) -> list[Size]:
        """Return where a column is that is counted over all positions."""
        sizes, found, line = self.kernel.positions, list[Size](), self.kernel.line
        if self.is_by_line and line is not None:
            width = -(-line // self.lanes) * self.lanes
            column, along = tirx.floordiv(column, width), tirx.floormod(column, width)
            found, sizes = [along if width == line else tirx.Min(along, integer(line - self.lanes))], sizes[:-1]
        for size in reversed(sizes[1:]):
            column, rest = tirx.floordiv(column, size), tirx.floormod(column, size)
            found.insert(0, rest)
        return [column, *found] if sizes else found

    def left(self, place: Place, row: Size, k: tirx.Expr) -> tirx.Expr:
        weight = self.kernel.weight
        return weight.source[tuple([self.channel(place, row), *[integer(0)] * (len(weight.indices) - 2), k])]

    def right(self, place: Place, k: tirx.Expr, column: Size | Sequence[Size], step: int = 0) -> tirx.Expr:
        kernel = self.kernel
        sums = kernel.sizes[kernel.found.spatial :]
        steps, count = list[Size](), 1
        for size in reversed(sums[1:]):
            # The last axes are written out, the others are counted with the channels.
            if count < kernel.window:
                steps.insert(0, integer(step // count % int(size)))
                count *= int(size)
            else:
                steps.insert(0, tirx.floormod(k, size))
                k = tirx.floordiv(k, size)
        axes: list[Size] = [*self.before(place), self.channel(place, integer(0))]
        if self.decisions.gathered and isinstance(column, Sequence):
            return self.seen([*axes, *column, k, *steps])
        if not self.is_of_all:
            axes += place[len(place) - len(kernel.positions) + 1 :]
        elif kernel.is_flat:
            axes += [integer(0)] * (len(kernel.positions) - 1)
        if isinstance(column, Sequence):
            lanes, spot = self.lanes, column
        else:
            lanes, spot = (int(column.lanes), [column.base]) if isinstance(column, tirx.Ramp) else (1, [column])
        first = self.seen([*axes, *spot, k, *steps])
        *indices, last = first.indices
        if kernel.spacing == 1 or lanes == 1:
            return first.source[tuple([*indices, ramp(last, lanes)])]
        return spaced(lambda shift: first.source[tuple([*indices, ramp(last + shift, lanes)])], kernel.spacing, lanes)

    def seen(self, values: Sequence[Size]) -> TensorLoad:
        """Return the element of the data for values of all axes."""
        data, node = self.kernel.data, self.kernel.node
        at = dict(zip([v.var for v in node.iter_vars], values, strict=True))
        indices = [replaced(index, at) for index in data.indices]
        if self.near is None or self.source is None:
            return data.source[tuple(indices)]
        return self.source[in_register(self.near.place(values[self.kernel.found.spatial], indices))]

    def finish(self, place: Place, row: Size, column: Size, lanes: int, sums: tirx.Expr) -> None:
        is_vector = self.is_plain or self.is_by_line or not self.is_of_all
        if not self.stages and is_vector:
            *others, last = self.axes(place, row, column)
            T.buffer_store(self.made[0], sums, [*others, ramp(last, lanes)])
            return
        kept = local(integer(lanes))
        T.buffer_store(kept, sums, [ramp(integer(0), lanes)])
        with T.vectorized(integer(lanes)) if is_vector and lanes > 1 else loop(lanes) as lane:
            at, value = self.axes(place, row, column, lane), kept[lane]
            for stage in self.stages:
                value = value_of(stage, at, self.made, [kept[lane]])
            T.buffer_store(self.made[-1], value, at)


def _divided(size: tirx.Expr, count: int) -> tirx.Expr:
    return Analyzer().simplify(tirx.floordiv(size, count))


def _lanes(kernel: ConvolutionKernel, is_gathered: bool, unit: VectorUnit) -> int:
    """Return how many columns a vector has: as many as one holds if a line has so many."""
    columns = known(reduce(mul, kernel.positions)) if is_gathered else kernel.line
    return unit.lanes if columns is None else min(unit.lanes, 1 << int(log2(columns)))


def _columns(kernel: ConvolutionKernel, is_gathered: bool, unit: VectorUnit) -> tirx.Expr:
    """Return how many columns the product has: positions, or, of lines of known length, elements of their vectors."""
    *lines, line = kernel.positions
    if kernel.is_flat or is_gathered:
        return reduce(mul, kernel.positions)
    if kernel.line is None:
        return line
    lanes = _lanes(kernel, is_gathered, unit)
    return reduce(mul, lines, integer(-(-kernel.line // lanes) * lanes))


RULE = Rule("implicit_gemm", Decisions, decide, candidates, apply)
