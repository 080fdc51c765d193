"""The rule for matrix products of float16 on the tensor cores of a GPU, with sums in float32.

As :mod:`.tiles`, but what computes on a tile in shared memory is a warp: 32 threads hold squares of 16 x 16 elements
together, of which the hardware multiplies two at a time. Sums go back into shared memory, where what follows them
finds them in order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from tvm import s_tir
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.gpu import WARP, Gpu, gpu_of
from ..blocks import Loop
from ..rule import Rule
from .occupancy import Tile, fastest, resident_blocks
from .product import Product, product_of
from .product_code import LEFT, RESULT, RIGHT, SUMS, Layout, written
from .tiles import bind_tiles, fetch_ahead, fetch_tile, is_too_large, legal_parts, sizes_of, spread_total

__all__ = ["RULE", "Decisions", "tile_of"]

_SQUARE = 16  # the size of what the hardware multiplies, along each axis
_SKEW = 8  # elements between the rows of a tile in shared memory, against conflicts of banks
_OWN = 40  # registers of a thread beside sums and operands
_SHARED = "shared.dyn"
_WRITTEN = 4  # results that a thread writes at once

_TILES = ((32, 32), (32, 64), (64, 32), (64, 64), (64, 128), (128, 64))
_WARPS = ((1, 2), (2, 1), (2, 2), (2, 4), (4, 2))
_STEPS = (16, 32, 64)


@dataclass(frozen=True)
class Decisions:
    """How products are cut in tiles.

    Attributes
    ----------
    rows, columns, step : int
        The tile of a block, along the rows, the columns and the sums: multiples of 16.
    warp_rows, warp_columns : int
        How many warps share the rows of a tile, and its columns.
    parts : int
        In how many parts sums are cut, each a tile of its own, to be added up by a second launch.
    ahead : bool
        Whether what the next step needs is fetched during this one.
    """

    rows: int
    columns: int
    step: int
    warp_rows: int
    warp_columns: int
    parts: int
    ahead: bool

    @property
    def threads(self) -> int:
        """How many threads a block has."""
        return WARP * self.warp_rows * self.warp_columns


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the decisions that are the fastest by the model of occupancy; None for products of other types."""
    product = _product(sch, target)
    if product is None:
        return None
    gpu = gpu_of(target)
    return fastest(_legal(product, gpu), lambda d: tile_of(product, d, gpu), sizes_of(product), gpu)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions whose blocks a multiprocessor can hold."""
    product = _product(sch, target)
    return () if product is None else _legal(product, gpu_of(target))


def tile_of(product: Product, decisions: Decisions, gpu: Gpu, registers: int | None = None) -> Tile:
    """Return what decisions mean to the model: with so many registers of a thread, or as many as it should take."""
    d = decisions
    warps = d.warp_rows * d.warp_columns
    sums = d.rows * d.columns // d.threads
    staged = -(-(d.rows + d.columns) * d.step // (2 * d.threads)) if d.ahead else 0
    # Squares of 16 x 16 float16 are 8 registers of a thread each.
    kept = 8 * (d.rows // d.warp_rows + d.columns // d.warp_columns) // _SQUARE
    operands = 2 * (d.rows * (d.step + _SKEW) + d.columns * (d.step + _SKEW))
    read_by_warp = 2 * (d.rows // d.warp_rows + d.columns // d.warp_columns)
    return Tile(
        d.rows,
        d.columns,
        d.step,
        d.parts,
        d.threads,
        operands + 4 * d.rows * d.columns,
        sums + kept + staged + _OWN if registers is None else registers,
        read_by_warp * warps / d.threads,
        gpu.tensor_rate,
        d.ahead,
    )


def _product(sch: s_tir.Schedule, target: Target) -> Product | None:
    gpu = gpu_of(target)
    product = product_of(sch) if gpu.has_tensor_cores and gpu.threads >= WARP * 8 else None
    is_half = product is not None and product.left.dtype == product.right.dtype == "float16"
    return product if is_half else None


def _legal(product: Product, gpu: Gpu) -> Iterator[Decisions]:
    for (rows, columns), (warp_rows, warp_columns), step in itertools.product(_TILES, _WARPS, _STEPS):
        if rows % (warp_rows * _SQUARE) or columns % (warp_columns * _SQUARE):
            continue
        # TVM would use the memory of a tile of float16 again for sums that fit there, which its intrinsics refuse.
        if max(rows, columns) * (step + _SKEW) * 2 >= rows * columns * 4:
            continue
        threads = WARP * warp_rows * warp_columns
        if (rows * step) % threads or (columns * step) % threads:
            continue
        if is_too_large(product, rows, columns):
            continue
        for parts, ahead in itertools.product(legal_parts(product, step), (False, True)):
            made = Decisions(rows, columns, step, warp_rows, warp_columns, parts, ahead)
            if resident_blocks(tile_of(product, made, gpu), gpu):
                yield made


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule:
    """Return the schedule of a kernel of matrix products, which is written anew for it."""
    # Registers its intrinsics when imported, which takes a while.
    from tvm.s_tir.tensor_intrin.cuda import get_wmma_intrin_group

    d, product, gpu = decisions, product_of(sch), gpu_of(target)
    assert product is not None
    rows = (d.warp_rows, d.rows // d.warp_rows // _SQUARE, _SQUARE)
    columns = (d.warp_columns, d.columns // d.warp_columns // _SQUARE, _SQUARE)
    by_column = product.right.along != "j"
    layout = Layout(rows, columns, d.step, d.parts, "inner", "inner" if by_column else "between")
    made = s_tir.Schedule(written(sch.mod["main"], product, layout))
    intrinsics = get_wmma_intrin_group(_SHARED, _SHARED, "float16", "float32", by_column)

    sums = made.get_sblock(SUMS)
    s, i0, i1, i2, j0, j1, j2, i3, j3, k = made.get_loops(sums)
    steps, k1, k2 = made.split(k, [None, d.step // _SQUARE, _SQUARE])
    made.reorder(s, i0, j0, i1, j1, steps, k1, i2, j2, i3, j3, k2)
    warp = made.fuse(i1, j1)
    bind_tiles(made, product, (s, i0, j0))
    made.bind(warp, "threadIdx.y")
    squares = made.blockize(i3)
    threads = {"threadIdx.y": d.warp_rows * d.warp_columns, "threadIdx.x": WARP}
    for number, (name, operand, size) in enumerate(((LEFT, product.left, d.rows), (RIGHT, product.right, d.columns))):
        block = made.get_sblock(name)
        fetch_tile(made, block, steps, operand, size * d.step, threads, gpu, _SHARED)
        if name == LEFT or by_column:
            made.storage_align(block, 0, -2, 16, _SKEW)
        kept = made.cache_read(squares, number, f"wmma.matrix_{'ab'[number]}")
        made.compute_at(kept, k1, preserve_unit_loops=True)
        made.tensorize(made.get_loops(kept)[-2], intrinsics["load_a" if name == LEFT else "load_b"])
    stored = made.cache_write(squares, 0, "wmma.accumulator")
    made.set_scope(stored, 0, _SHARED)
    made.reverse_compute_at(stored, warp, preserve_unit_loops=True)
    _write_results(made, product, warp, d)
    made.tensorize(made.get_loops(stored)[-2], intrinsics["store"])
    (zeros,) = made.get_child_blocks(made.decompose_reduction(squares, steps))
    made.tensorize(made.get_loops(zeros)[-2], intrinsics["init"])
    made.tensorize(made.get_loops(sums)[-3], intrinsics["compute"])
    if d.ahead:
        fetch_ahead(made, steps)
    if d.parts > 1:
        spread_total(made, min(product.width, _WRITTEN))
    return made


def _write_results(sch: s_tir.Schedule, product: Product, warp: Loop, decisions: Decisions) -> None:
    result = sch.get_sblock(RESULT)
    sch.reverse_compute_at(result, warp, preserve_unit_loops=True)
    lanes = min(product.width, _WRITTEN)
    loops = sch.get_loops(result)[-9:]
    _, lane_thread, lane = sch.split(sch.fuse(*loops), [None, WARP, lanes])
    sch.bind(lane_thread, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(lane)


RULE = Rule("gpu.tensor_tiles", Decisions, decide, candidates, apply)
