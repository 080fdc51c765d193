"""Products of rows with a packed weight on a CPU: convolutions by 1x1 at every position, with what follows them.

All positions of all images are rows of one matrix, so no tile is cut at the edge of a small image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

__all__ = ["LINE", "PanelPlan", "PanelShape", "fetch_ahead", "panels", "plan_panels"]

_NEAR = 512 << 10  # bytes of a weight that stay in the second cache while rows go by
LINE = 16  # float32 that come from memory at once
_USUAL = 4  # tiles of data of unknown size
_NEAREST = 24 << 10  # bytes of rows that stay in the first cache while blocks of the weight go by


@dataclass(frozen=True)
class PanelShape:
    """What a kernel of :func:`panels` computes.

    Attributes
    ----------
    lead : tuple of int or None
        Axes whose positions are the rows of the data; None where a size is known at run time.
    inner, outer : int
        Elements of a row, and of a row of the result: a multiple of `block`.
    block : int
        Elements of the result in a block of the weight: one or two vectors.
    lanes : int
        How many float32 a vector has.
    has_bias, has_residual : bool
        Whether a vector (outer,) and a matrix like the result are added, in this order.
    low, high : float or None
        What results are raised and lowered to at the end.
    """

    lead: tuple[int | None, ...]
    inner: int
    outer: int
    block: int
    lanes: int
    has_bias: bool = False
    has_residual: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def rows(self) -> int | None:
        """How many rows there are, None where that is known at run time."""
        return None if None in self.lead else math.prod(size for size in self.lead if size is not None)


@dataclass(frozen=True)
class PanelPlan:
    """How :func:`panels` goes about it.

    Attributes
    ----------
    rows : int
        Rows of a tile, whose results for a block are in registers.
    parts : int
        Tiles that a block of the weight is used for before the next block.
    unrolled : int
        Steps of the sum that are unrolled; a divisor of its length.
    fetched : int
        Lines of the next block of the weight that are fetched meanwhile by as many steps as are unrolled. All tiles of
        a block share this work: memory is slower than one tile, but not slower than all of them.
    """

    rows: int
    parts: int
    unrolled: int
    fetched: int


def plan_panels(shape: PanelShape, registers: int) -> PanelPlan:
    """Return the order of work for a machine with so many vector registers."""
    # Some registers are for the weight and what it is multiplied with.
    most = max(1, (registers - 4) // (shape.block // shape.lanes))
    rows, have = most, shape.rows
    if have is not None:
        # As few tiles as there can be, and little of the last one computed twice.
        sizes = range(max(1, min(have, most) // 2), min(have, most) + 1)
        rows = min(sizes, key=lambda r: (-(-have // r) * (r + 1), -r))
    unrolled = next(u for u in (4, 2, 1) if shape.inner % u == 0)
    if 4 * shape.inner * shape.outer <= _NEAR:
        parts = max(1, _NEAREST // (4 * rows * shape.inner))
    else:
        parts = max(1, _NEAR // (4 * rows * shape.inner))
    return PanelPlan(rows, parts, unrolled, _fetched(shape, rows, parts, unrolled))


def _fetched(shape: PanelShape, rows: int, parts: int, unrolled: int) -> int:
    """Return how many lines each round of unrolled steps is to fetch, so that a block has come when it is needed."""
    tiles = _USUAL if shape.rows is None else max(1, -(-shape.rows // rows))
    rounds = min(parts, tiles) * shape.inner // unrolled
    return -(-_lines(shape) // rounds)


def _lines(shape: PanelShape) -> int:
    return -(-shape.inner * shape.block // LINE)


def panels(shape: PanelShape, plan: PanelPlan) -> tirx.PrimFunc:
    """Return the kernel ``out = clip(data @ weight + bias + residual)``.

    Data is (*lead, inner), the weight (outer / block, inner, block); then come bias (outer,) and residual where there
    are any, and the result (*lead, outer). All are float32. The last tile begins where it ends with the data, and
    computes some rows again; data of fewer rows than a tile goes by one row at a time.
    """
    s, p = shape, plan
    with IRBuilder() as ib, T.prim_func(private=True):
        # One function whose buffers may overlap makes LLVM take those of the whole module for such.
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        names = ["data", "weight", *["bias"] * s.has_bias, *["residual"] * s.has_residual, "out"]
        handles = {name: T.arg(name, T.handle()) for name in names}
        lead = [tirx.Var(f"d{i}", "int64") if size is None else _int(size) for i, size in enumerate(s.lead)]
        rows = reduce(mul, lead)
        shapes = {
            "weight": [s.outer // s.block, s.inner, s.block],
            "bias": [s.outer],
        }
        widths = {name: s.inner if name == "data" else s.outer for name in names if name not in shapes}
        buffers = {
            name: T.match_buffer(
                handle, shapes[name] if name in shapes else [*lead, widths[name]], "float32", layout=None
            )
            for name, handle in handles.items()
        }
        for name, width in widths.items():
            # All positions are one axis.
            buffers[name] = T.decl_buffer([rows, width], "float32", data=buffers[name].data, layout=None)
        if s.rows is not None:
            _tiles(s, p, buffers, rows)
        else:
            with T.If(rows >= p.rows):
                with T.Then():
                    _tiles(s, p, buffers, rows)
                with T.Else():
                    _tiles(s, PanelPlan(1, 1, p.unrolled, _fetched(s, 1, 1, p.unrolled)), buffers, rows)
    return ib.get()


def _tiles(s: PanelShape, p: PanelPlan, buffers: dict[str, Any], rows: Any) -> None:
    tiles = tirx.floordiv(rows + (p.rows - 1), p.rows)
    blocks = s.outer // s.block
    groups = tirx.floordiv(tiles + (p.parts - 1), p.parts)
    with T.parallel(_int(0), groups * blocks) as work:
        block, group = tirx.floormod(work, blocks), tirx.floordiv(work, blocks)
        count = tirx.Min(_int(p.parts), tiles - group * p.parts)
        with T.serial(_int(0), count) as part:
            first = tirx.Min((group * p.parts + part) * p.rows, rows - p.rows)
            _tile(s, p, buffers, _held(first), block, part)


def _tile(s: PanelShape, p: PanelPlan, buffers: dict[str, Any], first: Any, block: Any, part: Any) -> None:
    vectors = range(s.block // s.lanes)
    total = [[T.alloc_buffer((_int(1),), f"float32x{s.lanes}", layout=None) for _ in vectors] for _ in range(p.rows)]
    channels = [_ramp(_held(block * s.block + v * s.lanes), s.lanes) for v in vectors]
    zero = tirx.Broadcast(tirx.FloatImm("float32", 0.0), s.lanes)
    starts = [T.Bind(buffers["bias"][channel]) if s.has_bias else zero for channel in channels]
    for row in total:
        for each, start in zip(row, starts, strict=True):
            T.buffer_store(each, start, [_int(0)])
    if s.has_residual:
        for r in range(p.rows):
            fetch_ahead(buffers["residual"][first + (p.rows + r), channels[0].base])  # of the next tile
    rounds = s.inner // p.unrolled
    with T.serial(_int(0), _int(rounds)) as outer:
        for line in range(p.fetched):
            at = tirx.Min((part * rounds + outer) * p.fetched + line, _int(_lines(s) - 1))
            fetch_ahead(buffers["weight"][block + 1, tirx.floordiv(at * LINE, s.block), tirx.floormod(at * LINE, s.block)])
        for step in range(p.unrolled):
            k = _held(outer * p.unrolled + step)
            columns = [T.Bind(buffers["weight"][block, k, _ramp(_int(v * s.lanes), s.lanes)]) for v in vectors]
            for r in range(p.rows):
                x = T.Bind(tirx.Broadcast(buffers["data"][first + r, k], s.lanes))
                for v in vectors:
                    T.buffer_store(total[r][v], total[r][v][0] + x * columns[v], [_int(0)])
    for r in range(p.rows):
        for v in vectors:
            at = (first + r, channels[v])
            T.buffer_store(buffers["out"], _finished(s, total[r][v][0], buffers, at), list(at))


def fetch_ahead(element: Any) -> None:
    """Write a statement that has an element fetched to the second cache; beyond the end of a tensor that does nothing.

    Weights that come from memory would be waited for at every page, where the machine's own fetching ahead ends.
    """
    address = tirx.address_of(element)
    T.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *(tirx.IntImm("int32", n) for n in (0, 2, 1))))


def _finished(s: PanelShape, value: Any, buffers: dict[str, Any], at: Sequence[Any]) -> Any:
    """Return a vector of results from a sum."""
    if s.has_residual:
        value = value + buffers["residual"][tuple(at)]
    if s.low is not None:
        value = tirx.Max(value, tirx.Broadcast(tirx.FloatImm("float32", s.low), s.lanes))
    if s.high is not None:
        value = tirx.Min(value, tirx.Broadcast(tirx.FloatImm("float32", s.high), s.lanes))
    return value


def _int(value: int) -> Any:
    return tirx.IntImm("int64", value)


def _ramp(begin: Any, lanes: int) -> Any:
    return tirx.Ramp(begin, _int(1), lanes)


def _held(value: Any) -> Any:
    """Return an integer that has been put in memory, which LLVM makes a register; see :mod:`.winograd`."""
    place = T.alloc_buffer((_int(1),), "int64", layout=None)
    T.buffer_store(place, value, [_int(0)])
    return place[0]
