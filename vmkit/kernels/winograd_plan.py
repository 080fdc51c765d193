"""Whether Winograd's convolution is worth it, with which tiles and in which order: a model of time on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .._dataclasses import dataclass
from ..target.matrix_unit import MATRIX_UNIT
from ..target.processor import CACHES, RATES
from .winograd_shape import WinogradCosts, WinogradPlan, WinogradShape
from .winograd_weight import PAIRS

__all__ = ["Machine", "costs_of", "direct_cycles", "plan_winograd", "winograd_cycles"]

_MOST_ON_TWO_AXES = 6  # the reach of tiles; see winograd_points
_USUAL, _USUAL_ROW = 28, 256  # the height and width of an image of unknown size, and the length of a row
_NEAR = CACHES.five_eighths_of_second
_NEAR_RATE, _FAR_RATE, _COLD_RATE, _FOREIGN_RATE = RATES.near, RATES.far, RATES.cold, RATES.foreign
_UNIT_GAIN = MATRIX_UNIT.gain
_TRANSFORM = {1: 0.0, 4: 4.4, 6: 11.0, 8: 18.0}  # cycles of a vector of channels on an axis, by the reach
_MOVE = RATES.move
_PARTS = (1, 2, 3, 4, 6, 8)  # of tiles that go together
_SHARED_PARTS = 4  # of kernels that sizes share
_SUM = 1.2  # times as long as its products takes a sum without tiles
_SUM_ROWS = 8  # results of a plain sum that are computed together
_SCALE = 1 << 10  # of the whole numbers that kernels compare
_OVERLAP = 2  # times as fast as from afar a weight comes that is fetched while products are computed


@dataclass(frozen=True)
class Machine:
    """What the choice depends on.

    Attributes
    ----------
    lanes, registers : int
        How many float32 a vector has, and how many vectors there are.
    cores : int
        How many cores share the work.
    has_matrix_unit : bool
        Whether what Winograd's tiles are compared with is computed on a matrix unit.
    passes : int
        How many times a unit works for each vector. Memory is no slower for that, so more of it may be read.
    """

    lanes: int
    registers: int
    cores: int = 1
    has_matrix_unit: bool = False
    passes: int = 1


def plan_winograd(
    shape: WinogradShape, machine: Machine, is_shared: bool = False
) -> tuple[WinogradShape, WinogradPlan] | None:
    """Return the best size of tiles with the order of work, or None where the sum itself is faster.

    Parameters
    ----------
    shape : WinogradShape
        The convolution; its size of tiles is left open.
    is_shared : bool
        Whether convolutions of other sizes are to come to the same plan, as far as it can be.
    """
    best = min(
        ((winograd_cycles(each, plan, machine), (each, plan)) for each, plan in _candidates(shape, machine, is_shared)),
        key=lambda pair: pair[0],
        default=None,
    )
    return best[1] if best is not None and best[0] < direct_cycles(shape, machine) else None


def costs_of(shape: WinogradShape, plan: WinogradPlan, machine: Machine) -> WinogradCosts:
    """Return by what a kernel of unknown size compares tiles with the sum itself, which is faster for few results.

    A tile of products is computed whole even where it is for one result, and the transformed weight is up to four times
    as long as the weight.
    """
    elements, points = shape.kernel[0] * shape.kernel[1], shape.points
    rows = min(plan.rows, _SUM_ROWS)
    of_product = _SCALE * machine.passes / machine.lanes / 2
    of_weight = _SCALE * 4 / (_COLD_RATE * _OVERLAP)
    of_data, of_result = (_SCALE * machine.passes * cycles / machine.lanes for cycles in _transforms(shape))
    return WinogradCosts(
        products=round(of_product * points * plan.rows),
        weight=round(of_weight * points),
        data=round(of_data),
        result=round(of_result),
        sums=round(_SUM * of_product * elements * rows),
        plain=round(of_weight * elements),
        sum_rows=rows,
    )


def _transforms(shape: WinogradShape) -> tuple[float, float]:
    """Return how many cycles the transforms of a tile take, for a vector of input and of output channels."""
    (high, wide), tile_high = shape.reach, shape.tile[0]
    of_data = wide * _TRANSFORM[high] + high * _TRANSFORM[wide] + _MOVE * shape.points
    of_result = wide * _TRANSFORM[high] + tile_high * _TRANSFORM[wide] + _MOVE * shape.points
    return of_data, of_result


def _candidates(
    shape: WinogradShape, machine: Machine, is_shared: bool
) -> Iterator[tuple[WinogradShape, WinogradPlan]]:
    # Some registers are for the weight and what it is multiplied with.
    most = max(1, (machine.registers - 4) // (shape.block // machine.lanes))
    for tile in _sizes_of_tiles(shape.kernel):
        each = replace(shape, tile=tile)
        tiles = _tiles(each)
        if is_shared:
            yield each, WinogradPlan(most, most * _SHARED_PARTS)
            continue
        for rows in range(max(1, most // 2), most + 1):
            for parts in _PARTS:
                if parts > 1 and rows * (parts - 1) >= tiles:
                    break
                over_tiles = each.tiles is None or -(-tiles // (rows * parts)) >= machine.cores
                yield each, WinogradPlan(rows, rows * parts, is_parallel_over_tiles=over_tiles)


def _sizes_of_tiles(kernel: tuple[int, int]) -> Iterator[tuple[int, int]]:
    for reach in PAIRS:
        if reach > _MOST_ON_TWO_AXES and min(kernel) > 1:
            continue
        down, across = (1 if size == 1 else reach + 1 - size for size in kernel)
        # A tile of one result takes as many products as the sum itself.
        if all(tile > 1 or size == 1 for tile, size in ((down, kernel[0]), (across, kernel[1]))):
            yield down, across


def _size(shape: WinogradShape) -> tuple[int, int, int]:
    """Return the batch, height and width of the result, as they are or as they may be."""
    usual = _USUAL_ROW if shape.height == 1 else _USUAL
    return shape.batch or 1, *shape.made(shape.height or _USUAL, shape.width or usual)


def _tiles(shape: WinogradShape) -> int:
    batch, height, width = _size(shape)
    return batch * -(-height // shape.tile[0]) * -(-width // shape.tile[1])


def winograd_cycles(shape: WinogradShape, plan: WinogradPlan, machine: Machine) -> float:
    """Return about how many cycles a convolution takes by tiles in some order of work."""
    tiles = _tiles(shape)
    groups, left = divmod(tiles, plan.count)
    parts = groups * (plan.count // plan.rows) + -(-left // plan.rows)
    vectors = shape.outer // machine.lanes
    # Multiplying begins and ends with as many registers as there are results.
    latency = max(1.0, 8 / (plan.rows * (shape.block // machine.lanes)))
    products = parts * plan.rows * shape.points * vectors * (shape.inner * latency + 4) / 2 * machine.passes
    of_data, of_result = _transforms(shape)
    transforms = tiles * (shape.inner // machine.lanes * of_data + vectors * of_result) * machine.passes
    weight = 4 * shape.points * shape.inner * shape.outer
    moved = 4 * shape.points * plan.count * shape.inner
    rounds = -(-tiles // plan.count)
    # The weight is fetched from afar once, and again for every group of tiles where it does not stay near.
    fetch = weight / _COLD_RATE + (rounds - 1) * weight / _rate((weight + moved) / 2)
    fetch += rounds * moved * (shape.outer // shape.block) / _rate(moved)
    alone = products + transforms + fetch
    if machine.cores == 1:
        return alone
    # Nobody knows how many threads it will run on: one or as many as there are cores, which take so long together.
    if plan.is_parallel_over_tiles:
        waiting = -(-rounds // machine.cores) * machine.cores / rounds
        together = (products + transforms) * waiting + fetch
    else:
        together = alone + rounds * moved * (machine.cores - 1) / _FOREIGN_RATE
    return (alone + together) / 2


def direct_cycles(shape: WinogradShape, machine: Machine) -> float:
    """Return about how many cycles the sum itself takes; the shape may be without tiles."""
    batch, height, width = _size(shape)
    elements = shape.kernel[0] * shape.kernel[1] * shape.inner * shape.outer
    products = batch * height * width * elements / machine.lanes / 2 * machine.passes
    weight = 4 * elements
    if machine.has_matrix_unit:
        return products / _UNIT_GAIN + 1.5 * weight / _COLD_RATE
    return _SUM * products + weight / _COLD_RATE


def _rate(size: float) -> int:
    return _NEAR_RATE if size <= _NEAR else _FAR_RATE
