"""The rule for matrix products on the plain lanes of a GPU: dense layers, products of batches, convolutions.

A block of threads computes a tile of the result. For each step along the sums it copies a part of both operands into
shared memory, and each thread reads from there what its own few rows and columns need, four elements at a time, and
keeps their sums in registers. The part for the next step is fetched into registers meanwhile. Convolutions are read as
matrices on the way into shared memory, padding and all; what follows the sums is computed on the way out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tvm import s_tir
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.gpu import Gpu, gpu_of
from ..blocks import Block, Loop
from ..rule import Rule
from .occupancy import Sizes, Tile, fastest, resident_blocks
from .product import Operand, Product, product_of
from .product_code import LEFT, RESULT, RIGHT, SUMS, TOTAL, Layout, written

__all__ = [
    "RULE",
    "Decisions",
    "bind_tiles",
    "fetch_ahead",
    "fetch_tile",
    "is_too_large",
    "legal_parts",
    "sizes_of",
    "spread_total",
    "tile_of",
]

_FRAGMENT = 4  # neighbouring rows or columns of a thread, which it reads at once
_EXPECTED = 1024  # what a size that is known at run time only is taken for
_PADDING = 4  # elements between the rows of a tile that is turned round on its way in, against conflicts of banks
_OWN = 36  # registers of a thread beside sums and operands: addresses, conditions, counters
_TOTAL_THREADS = 256
_BATCH = 4_000  # how many batches and parts of sums a third axis of blocks may have: with 16 parts less than 65,536
_FETCHED = 16  # elements of an operand that a thread copies for a step at most: each has an address and conditions

# Tiles of blocks and of threads that are worth trying.
_TILES = (
    *((16, 32), (32, 16), (16, 64), (64, 16), (32, 32), (128, 16)),
    *((32, 64), (64, 32), (64, 64), (128, 32), (64, 128), (128, 64), (128, 128)),
)
_OF_THREADS = ((4, 4), (4, 8), (8, 4), (8, 8))
_STEPS = (8, 16, 32)
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class Decisions:
    """How products are cut in tiles.

    Attributes
    ----------
    rows, columns, step : int
        The tile of a block, along the rows, the columns and the sums.
    thread_rows, thread_columns : int
        The part of it that a thread has, a multiple of four each.
    parts : int
        In how many parts sums are cut, each a tile of its own, to be added up by a second launch.
    ahead : bool
        Whether what the next step needs is fetched during this one.
    """

    rows: int
    columns: int
    step: int
    thread_rows: int
    thread_columns: int
    parts: int
    ahead: bool

    @property
    def threads(self) -> int:
        """How many threads a block has."""
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the decisions that the model of occupancy takes for the fastest; None for what is no matrix product."""
    product = product_of(sch)
    if product is None:
        return None
    gpu = gpu_of(target)
    return fastest(_legal(product, gpu), lambda d: tile_of(product, d, gpu), sizes_of(product), gpu)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions whose blocks a multiprocessor can hold."""
    product = product_of(sch)
    return () if product is None else _legal(product, gpu_of(target))


def sizes_of(product: Product) -> Sizes:
    """Return the sizes of products, a typical one for those that are not known."""
    s, i, j, k = (getattr(product, axis).size for axis in "sijk")
    width = 2 if product.left.dtype == product.right.dtype == "float16" else 4
    return Sizes(1 if s is None else s, i or _EXPECTED, j or _EXPECTED, k or _EXPECTED, width)


def tile_of(product: Product, decisions: Decisions, gpu: Gpu, registers: int | None = None) -> Tile:
    """Return what decisions mean to the model: with so many registers of a thread, or as many as it should take."""
    d = decisions
    staged = -(-(d.rows + d.columns) * d.step // d.threads) if d.ahead else 0
    sums, kept = d.thread_rows * d.thread_columns, d.thread_rows + d.thread_columns
    pads = sum(_PADDING for operand in (product.left, product.right) if operand.along == "k")
    return Tile(
        d.rows,
        d.columns,
        d.step,
        d.parts,
        d.threads,
        4 * (d.rows + d.columns + pads) * d.step,
        sums + kept + staged + _OWN if registers is None else registers,
        4.0 * kept,
        1.0,
        d.ahead,
    )


def legal_parts(product: Product, step: int) -> list[int]:
    """Return in how many parts sums may be cut so that each has some steps."""
    k = product.k.size
    if k is None or None in (product.s.size, product.i.size, product.j.size):
        return [1]
    return [parts for parts in _PARTS if parts == 1 or k >= parts * step * 4]


def _legal(product: Product, gpu: Gpu) -> Iterator[Decisions]:
    for (rows, columns), (thread_rows, thread_columns), step in itertools.product(_TILES, _OF_THREADS, _STEPS):
        threads = rows // thread_rows * (columns // thread_columns)
        if not 32 <= threads <= 256 or (rows * step) % threads or (columns * step) % threads:
            continue
        if max(rows, columns) * step > _FETCHED * threads:
            continue
        if is_too_large(product, rows, columns):
            continue
        for parts, ahead in itertools.product(legal_parts(product, step), (False, True)):
            made = Decisions(rows, columns, step, thread_rows, thread_columns, parts, ahead)
            if resident_blocks(tile_of(product, made, gpu), gpu):
                yield made


def is_too_large(product: Product, rows: int, columns: int) -> bool:
    """Say whether half of a tile, or more, would be outside of the result, where a smaller one would do."""
    pairs = ((product.i.size, rows), (product.j.size, columns))
    return any(size is not None and tile > 32 and tile >= 2 * size for size, tile in pairs)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule:
    """Return the schedule of a kernel of matrix products, which is written anew for it."""
    product, gpu = product_of(sch), gpu_of(target)
    assert product is not None
    rows = (decisions.thread_rows // _FRAGMENT, decisions.rows // decisions.thread_rows, _FRAGMENT)
    columns = (decisions.thread_columns // _FRAGMENT, decisions.columns // decisions.thread_columns, _FRAGMENT)
    layout = Layout(rows, columns, decisions.step, decisions.parts, "outer", "outer")
    made = s_tir.Schedule(written(sch.mod["main"], product, layout))
    sums = made.get_sblock(SUMS)
    s, i0, i1, i2, j0, j1, j2, i3, j3, k = made.get_loops(sums)
    steps, step = made.split(k, [None, decisions.step])
    made.reorder(s, i0, j0, i2, j2, steps, step, i1, i3, j1, j3)
    thread = made.fuse(i2, j2)
    bind_tiles(made, product, (s, i0, j0))
    made.bind(thread, "threadIdx.x")
    # The compiler of the device unrolls: written out here, kernels would be thousands of lines.
    made.annotate(thread, "pragma_unroll_explicit", 0)
    for loop in (step, i1, i3, j1, j3):
        made.unroll(loop)
    made.set_scope(sums, 0, "local")
    _write_results(made, thread, _lanes(product.width, product.dtype, gpu))
    for number, (name, operand, size) in enumerate(
        ((LEFT, product.left, decisions.rows), (RIGHT, product.right, decisions.columns))
    ):
        block = made.get_sblock(name)
        fetch_tile(made, block, steps, operand, size * decisions.step, {"threadIdx.x": decisions.threads}, gpu)
        if operand.along == "k":
            made.storage_align(block, 0, 1, 32, _PADDING)
        kept = made.cache_read(sums, number, "local")
        made.compute_at(kept, step, preserve_unit_loops=True)
        *_, half, _, at = made.get_loops(kept)
        made.unroll(half)
        if gpu.vector > 4:
            made.vectorize(at)
    made.decompose_reduction(sums, steps)
    if decisions.ahead:
        fetch_ahead(made, steps)
    if decisions.parts > 1:
        spread_total(made, _lanes(product.width, product.dtype, gpu))
    return made


def bind_tiles(sch: s_tir.Schedule, product: Product, loops: Sequence[Loop]) -> None:
    """Bind the loops over the batch and the tiles along rows and columns to blocks of threads.

    An axis for each, as nothing has to be divided by sizes that are known at run time then; a batch that is too large
    for that is known.
    """
    s, rows, columns = loops
    if product.s.size is not None and product.s.size > _BATCH:
        rows = sch.fuse(s, rows)
    else:
        sch.bind(s, "blockIdx.z")
    sch.bind(rows, "blockIdx.x")
    sch.bind(columns, "blockIdx.y")


def _lanes(width: int, dtype: str, gpu: Gpu) -> int:
    """Return how many elements are read or written at once of those that are next to each other."""
    size = 2 if dtype == "float16" else 4
    return max(1, min(width, _FRAGMENT, gpu.vector // size))


def _write_results(sch: s_tir.Schedule, thread: Loop, lanes: int) -> None:
    """Let each thread write its results, after its sums."""
    result = sch.get_sblock(RESULT)
    sch.reverse_compute_at(result, thread, preserve_unit_loops=True)
    i1, _, _, j1, _, i3, j3 = sch.get_loops(result)[-7:]
    for loop in (i1, i3, j1):
        sch.unroll(loop)
    if lanes == 1:
        sch.unroll(j3)
        return
    rest, lane = sch.split(j3, [None, lanes])
    sch.unroll(rest)
    sch.vectorize(lane)


def fetch_tile(
    sch: s_tir.Schedule,
    block: Block,
    at: Loop,
    operand: Operand,
    elements: int,
    threads: Mapping[str, int],
    gpu: Gpu,
    scope: str = "shared",
) -> None:
    """Let the threads of a block copy a tile of an operand into shared memory together.

    Parameters
    ----------
    sch, block, at
        The schedule, the block that copies, and the loop over the steps.
    operand : Operand
        What is copied: threads that follow each other read elements that do.
    elements : int
        How many a tile has.
    threads : mapping of str to int
        How many threads a block has by their tags, the outer ones first.
    gpu : Gpu
        The device.
    scope : str
        Of the shared memory.
    """
    sch.set_scope(block, 0, scope)
    sch.compute_at(block, at, preserve_unit_loops=True)
    axes = [v.var.name for v in sch.get(block).iter_vars]
    own = dict(zip(axes, sch.get_loops(block)[-len(axes) :], strict=True))
    batch, k = own.pop("vs"), own.pop("vk")
    order = [*own.values(), k] if operand.along == "k" else [k, *own.values()]
    sch.reorder(batch, *order)
    count = math.prod(threads.values())
    lanes = max(1, min(operand.width, gpu.vector // (2 if operand.dtype == "float16" else 4)))
    while lanes > 1 and elements % (count * lanes):
        lanes //= 2
    _, *own_threads, lane = sch.split(sch.fuse(batch, *order), [None, *threads.values(), lanes])
    for thread, tag in zip(own_threads, threads, strict=True):
        sch.bind(thread, tag)
    if lanes > 1:
        sch.vectorize(lane)


def fetch_ahead(sch: s_tir.Schedule, steps: Loop) -> None:
    """Let each of the steps fetch both operands' tiles of the next one while it computes (software pipelining)."""
    for name in (LEFT, RIGHT):
        sch.annotate(sch.get_sblock(name), "tirx.manifest_shared_memory_local_stage", 1)
    # Both operands into registers, the sums of this step, both into shared memory.
    sch.annotate(steps, "software_pipeline_stage", [0, 0, 0, 0, 1])
    sch.annotate(steps, "software_pipeline_order", [0, 3, 1, 4, 2])


def spread_total(sch: s_tir.Schedule, lanes: int) -> None:
    """Let threads add up the parts of sums, in a launch of its own."""
    elements = sch.fuse(*sch.get_loops(sch.get_sblock(TOTAL)))
    outer, thread, lane = sch.split(elements, [None, _TOTAL_THREADS, lanes])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(lane)


RULE = Rule("gpu.tiles", Decisions, decide, candidates, apply)
