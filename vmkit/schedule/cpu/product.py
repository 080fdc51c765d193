"""The rule for products of matrices of which none was packed: two inputs, in any order of their axes.

One operand has the columns of the result, of which vectors are made, and the other one the rows. Where the columns are
not next to each other in memory, the sums have to be: squares are transposed for that, or, for a few rows, vectors go
along the sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import log2
from operator import mul

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad
from ...kernels.builder import Size, T, integer, local, loop, ramp
from ...kernels.builder import kernel as written
from ...kernels.product import Product, Tile, emit_product
from ...target.processor import Caches, Processor, processor_of
from ...target.vectors import VectorUnit
from ..blocks import SingleReduction, single_reduction, static_size
from ..expressions import known, replaced, uses
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing
from .products import MOST_VECTORS, Term, fits, terms_of, tile_size
from .stages import block_of, is_chain, is_in, nests_of, value_of, with_nests

__all__ = ["RULE", "Decisions"]

_LEAST = 4  # columns that are worth vectors
_DOTS = 8  # rows from which on transposing the right operand costs less than adding up vectors of sums
_FEW = 4  # rows that keep the multipliers busy tolerably
_REUSED = 3  # tiles of rows that repay the copy of a panel
_CHUNK = 48  # tiles that repay the making of a panel well
_ROW = 128  # vectors of a row that are read in one piece
_AHEAD = 4  # differences that LLVM makes before it adds up the first
_USUAL = 64  # a size that is known at run time only

Place = Sequence[Size]  # along the axes of the result that are neither rows nor columns


@dataclass(frozen=True)
class Decisions:
    """How a product is computed.

    Attributes
    ----------
    rows, vectors : int
        How many rows of how many vectors of the result are in registers.
    unrolled : int
        How many steps of the sum one iteration has; they divide it.
    chunk : int
        How many tiles go by a panel of the right operand before the next one is made.
    packed : bool
        Whether panels are copied.
    dot : bool
        Whether vectors go along the sums, for each row by itself.
    streamed : bool
        Whether the right operand is read row by row where there is one row of the left one.
    parallel : bool
        Whether tiles are shared among cores.
    """

    rows: int
    vectors: int
    unrolled: int
    chunk: int
    packed: bool
    dot: bool
    streamed: bool
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    """A kernel around a product; `row` and `column` are places among the axes of the sum."""

    found: SingleReduction
    row: int | None
    column: int
    left: TensorLoad
    right: TensorLoad
    sizes: list[tirx.Expr]
    is_left_along: bool
    is_transposed: bool
    term: Term

    @property
    def rows(self) -> int | None:
        """How many rows a product has, None where that is known at run time."""
        return 1 if self.row is None else known(self.sizes[self.row])

    @property
    def columns(self) -> int | None:
        return known(self.sizes[self.column])

    @property
    def inner(self) -> int | None:
        return known(self.sizes[-1])

    @property
    def dtype(self) -> str:
        return str(self.left.source.dtype)

    @property
    def bytes(self) -> int:
        """How many bytes a number has."""
        return 8 if self.dtype == "float64" else 4

    @property
    def beside(self) -> int:
        """How many registers a term needs beside sums and a row: for an element, and for differences made ahead."""
        return 1 if self.term is mul else 1 + _AHEAD

    @property
    def has_dots(self) -> bool:
        return self.is_left_along and self.is_transposed


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a product of two matrices; for any number of rows, those for many."""
    kernel = _kernel(sch)
    if kernel is None:
        return None
    processor = processor_of(target)
    lanes, caches = _lanes(kernel, processor.vectors), processor.caches
    is_dot = kernel.has_dots and kernel.rows is not None and kernel.rows < _DOTS
    rows, vectors = tile_size(kernel.rows, kernel.columns, lanes, processor, beside=kernel.beside)
    inner = kernel.inner
    unrolled = 1 if inner is None else next(u for u in (4, 2, 1) if inner % u == 0)
    is_reused = kernel.rows is None or kernel.rows >= _REUSED * rows
    packed = not is_dot and (kernel.is_transposed or is_reused)
    # Rows stay in the cache while panels go by.
    chunk = max(1, min(caches.half_of_second // (kernel.bytes * rows * (inner or _USUAL)), _CHUNK))
    is_streamed = not kernel.is_transposed and _is_from_memory(kernel, caches)
    return Decisions(rows, vectors, unrolled, chunk, packed, is_dot, is_streamed, _is_large(sch, kernel))


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles that fit into the registers beside what they are computed from."""
    kernel, default, unit = _kernel(sch), decide(sch, target), processor_of(target).vectors
    if kernel is None or default is None:
        return ()
    rows, inner = kernel.rows, kernel.inner
    options: Options = {
        "rows": [r for r in range(1, unit.registers) if rows is None or r <= rows],
        "vectors": list(range(1, MOST_VECTORS + 1)),
        "unrolled": [u for u in (1, 2, 4, 8) if inner is not None and inner % u == 0] or [1],
        "chunk": list(dict.fromkeys([default.chunk, 8, 16, 32, 64])),
        "streamed": [False] if kernel.is_transposed else [False, True],
        "packed": [True] if kernel.is_transposed else [False, True],
        "parallel": sharing(static_size(sch, sch.get_loops(kernel.found.block)), target),
    }
    tried = choices(Decisions, default, options)
    return (d for d in tried if d == default or (not d.dot and fits(d.rows, d.vectors, unit, kernel.beside)))


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a product of two matrices."""
    kernel, processor = _kernel(sch), processor_of(target)
    assert kernel is not None
    found = kernel.found
    follows = [] if found.after is None else [found.after]
    is_fused = is_chain(sch.get(found.block), [sch.get(block) for block in follows])
    for other in [*found.others, *([] if is_fused else follows)]:
        schedule_spatial(sch, other)
    function, node = sch.mod["main"], sch.get(found.block)
    root, nests = function.body.block, nests_of(function)
    stages = [sch.get(block) for block in follows] if is_fused else []
    loops = _loops(kernel, node, stages, _tiles(kernel, processor, decisions))
    # What follows the sum may read what is computed between them: all of it goes where the last of it was.
    parts = [node, *stages]
    at = next(i for i, nest in enumerate(nests) if block_of(nest).same_as(parts[-1]))
    before, after = ([n for n in some if not is_in(block_of(n), parts)] for some in (nests[:at], nests[at + 1 :]))
    gone = [node.writes[0].source] if stages else []
    made = with_nests(root, [*before, loops, *after], gone)
    sch.state.replace(sch.get_sref(sch.get_sblock(root.name_hint)), made)


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    found = single_reduction(sch)
    if found is None:
        return None
    node = sch.get(found.block)
    if len(node.iter_vars) != found.spatial + 1:
        return None
    terms = terms_of(node, ("float32", "float64"))
    sizes = [_int64(v.dom.extent) for v in node.iter_vars]
    several = [a for a in reversed(range(found.spatial)) if known(sizes[a]) != 1]
    if terms is None or not several:
        return None
    factors, term = terms
    column, *others = several
    if (known(sizes[column]) or _LEAST) < _LEAST:
        # Vectors of so few columns would be mostly empty: they go along the rows, if there are more of those.
        other = next(
            (a for a in others if not _share(factors, node.iter_vars[a].var, node.iter_vars[column].var)), None
        )
        if other is None or (known(sizes[other]) or 1) < _LEAST:
            return None  # of rows that are known at run time only there may be one
        column = other
    *axes, inner = [v.var for v in node.iter_vars]
    left, right = factors if _has(factors[1], axes[column]) else factors[::-1]
    if _has(left, axes[column]) or not _has(right, axes[column]):
        return None
    if not _has(left, inner) or not _has(right, inner):
        return None
    is_transposed = _is_along(right, inner)
    if not is_transposed and not _is_along(right, axes[column]):
        return None
    of_left = [a for a in range(found.spatial) if _has(left, axes[a]) and not _has(right, axes[a])]
    row = next((a for a in reversed(of_left) if known(sizes[a]) != 1), None)
    return _Kernel(found, row, column, left, right, sizes, _is_along(left, inner), is_transposed, term)


def _share(factors: tuple[TensorLoad, TensorLoad], one: tirx.Var, other: tirx.Var) -> bool:
    """Say whether an operand depends on two axes, of which no product has one as its rows and the other as columns."""
    return any(_has(load, one) and _has(load, other) for load in factors)


def _has(load: TensorLoad, var: tirx.Var) -> bool:
    return any(uses(index, var) for index in load.indices)


def _is_along(load: TensorLoad, var: tirx.Var) -> bool:
    """Say whether an operand's last index is a variable, and no other index depends on it."""
    *others, last = load.indices
    return bool(last.same_as(var)) and not any(uses(index, var) for index in others)


def _int64(size: tirx.Expr) -> tirx.Expr:
    return size.astype("int64")


def _lanes(kernel: _Kernel, unit: VectorUnit) -> int:
    """Return how many columns a vector has: as many as one holds if there are."""
    lanes = max(unit.lanes * 4 // kernel.bytes, 1)
    if kernel.columns is None:
        return lanes
    return min(lanes, 1 << int(log2(kernel.columns)))


def _is_from_memory(kernel: _Kernel, caches: Caches) -> bool:
    """Say whether the right operand is so large that it is not taken to be in the cache."""
    return kernel.bytes * (kernel.inner or _USUAL) * (kernel.columns or _USUAL) >= caches.second


def _is_large(sch: s_tir.Schedule, kernel: _Kernel) -> bool:
    unknown = sum(known(size) is None for size in kernel.sizes)
    return static_size(sch, sch.get_loops(kernel.found.block)) * _USUAL**unknown >= PARALLEL_SIZE


def _tiles(kernel: _Kernel, processor: Processor, decisions: Decisions) -> list[Tile]:
    """Return the tiles to try in turn, the largest first; ones of one row and column where sizes are not known."""
    d, lanes = decisions, _lanes(kernel, processor.vectors)
    whole = Tile(d.rows, d.vectors, lanes, d.unrolled, d.chunk, d.packed, d.dot, d.parallel)
    one = replace(whole, rows=1, is_dot=True) if kernel.has_dots else _fewer(kernel, processor, whole, 1)
    if d.streamed:
        one = replace(one, vectors=_ROW, is_streamed=True)
    made = [one if d.dot or (d.streamed and d.rows == 1) else whole]
    if kernel.rows is None:
        few = _DOTS if kernel.has_dots else _FEW
        made += [_fewer(kernel, processor, whole, few)] if few < d.rows else []
        made += [one] if d.rows > 1 else []
    if kernel.columns is None:
        # Each version costs time to compile; less than a vector of columns is no place for speed.
        made += [replace(one, lanes=narrow, vectors=1) for narrow in (_LEAST, 1) if narrow < lanes]
    return made


def _fewer(kernel: _Kernel, processor: Processor, tile: Tile, rows: int) -> Tile:
    """Return a tile for few rows, for which a panel is made only where vectors need it."""
    _, vectors = tile_size(rows, kernel.columns, tile.lanes, processor, rows, kernel.beside)
    return replace(tile, rows=rows, vectors=vectors, is_packed=kernel.is_transposed)


def _loops(kernel: _Kernel, node: s_tir.SBlock, stages: Sequence[s_tir.SBlock], tiles: Sequence[Tile]) -> tirx.Stmt:
    """Return the loops of a product and the stages that follow it."""
    variables = [v.var for v in node.iter_vars]
    spatial = kernel.found.spatial
    outer = [a for a in range(spatial) if a not in (kernel.row, kernel.column)]
    made = [node.writes[0].source, *(stage.body.buffer for stage in stages)]

    def axes(place: Place, row: Size, column: Size) -> list[Size]:
        at = dict(zip(outer, place, strict=True)) | {kernel.column: column}
        if kernel.row is not None:
            at[kernel.row] = row
        return [at[a] for a in range(spatial)]

    def read(load: TensorLoad, values: Sequence[Size]) -> tirx.Expr:
        at = dict(zip(variables, values, strict=True))
        return load.source[tuple(replaced(index, at) for index in load.indices)]

    def finish(place: Place, row: Size, column: Size, lanes: int, sums: tirx.Expr) -> None:
        is_vector = kernel.column == spatial - 1
        if not stages and (is_vector or lanes == 1):
            T.buffer_store(made[0], sums, axes(place, row, ramp(column, lanes)))
            return
        kept = local(integer(lanes), dtype=kernel.dtype)
        T.buffer_store(kept, sums, [ramp(integer(0), lanes)])
        with T.vectorized(integer(lanes)) if is_vector and lanes > 1 else loop(lanes) as lane:
            at, value = axes(place, row, column + lane), kept[lane]
            for stage in stages:
                value = value_of(stage, at, made, [kept[lane]])
            T.buffer_store(made[-1], value, at)

    product = Product(
        outer=[kernel.sizes[a] for a in outer],
        rows=integer(1) if kernel.row is None else kernel.sizes[kernel.row],
        columns=kernel.sizes[kernel.column],
        inner=kernel.sizes[-1],
        left=lambda place, row, k: read(kernel.left, [*axes(place, row, 0), k]),
        right=lambda place, k, column: read(kernel.right, [*axes(place, 0, column), k]),
        is_left_along=kernel.is_left_along,
        is_transposed=kernel.is_transposed,
        finish=finish,
        dtype=kernel.dtype,
        term=kernel.term,
    )
    with written() as builder:
        emit_product(product, tiles)
    return builder.get().body


RULE = Rule("product", Decisions, decide, candidates, apply)
