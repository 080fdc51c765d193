"""How long tiles of matrix products take on a GPU, as far as that can be computed without one.

The model counts cycles of the busiest multiprocessor. A step over a tile costs three things: the multiply-adds over the
lanes; what threads store into and read from the tiles, over the banks of shared memory; what the tiles take from the
cache that all multiprocessors share. They overlap in part: the root of the sum of their squares counts. Registers and
shared memory say how many blocks a multiprocessor holds (occupancy), and with few threads there the latency of a step
shows. Blocks are dealt out evenly, so that the last round may leave multiprocessors idle (wave quantisation). Operands
and results go through memory once at least. Where sums are cut in parts, a second launch reads what they wrote.

It ranks decisions; its seconds are no measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..._dataclasses import dataclass
from ...target.gpu import WARP, Gpu
from ..rule import D

__all__ = ["Sizes", "Tile", "fastest", "resident_blocks", "seconds"]

_CONFLICTS = 2  # how often threads that store into shared memory meet in a bank


@dataclass(frozen=True)
class Sizes:
    """The sizes of matrix products: a batch, rows, columns, steps of a sum, and the bytes of an element."""

    s: int
    i: int
    j: int
    k: int
    bytes: int = 4


@dataclass(frozen=True)
class Tile:
    """How products are cut, and what a block of threads takes.

    Attributes
    ----------
    rows, columns, step : int
        The tile of a block.
    parts : int
        In how many parts sums are cut.
    threads, shared, registers : int
        Of a block, its bytes of shared memory, and what a thread of it has.
    reads : float
        Bytes that a thread reads from shared memory for a step of one.
    rate : float
        How many multiply-adds a lane does at a time: 1 on the plain ones.
    is_ahead : bool
        Whether the next step is fetched during this one.
    """

    rows: int
    columns: int
    step: int
    parts: int
    threads: int
    shared: int
    registers: int
    reads: float
    rate: float
    is_ahead: bool


def resident_blocks(tile: Tile, gpu: Gpu) -> int:
    """Return how many blocks a multiprocessor holds; 0 where a block is too large for it."""
    if tile.threads > gpu.threads or tile.shared > gpu.shared or tile.registers > gpu.registers:
        return 0
    # Registers are given to warps in units of 256.
    of_warp = -(-tile.registers * WARP // 256) * 256
    warps = -(-tile.threads // WARP)
    return min(
        gpu.resident_threads // tile.threads,
        gpu.resident_blocks,
        gpu.resident_shared // max(tile.shared, 1),
        gpu.resident_registers // (of_warp * warps),
    )


def fastest(tried: Iterable[D], tile: Callable[[D], Tile], sizes: Sizes, gpu: Gpu) -> D | None:
    """Return those of some decisions, of which a function says how they cut products, that take the least time."""
    return min(tried, key=lambda decisions: seconds(sizes, tile(decisions), gpu), default=None)


def seconds(sizes: Sizes, tile: Tile, gpu: Gpu) -> float:
    """Return how long products take by the model; infinity where a block is too large."""
    resident = resident_blocks(tile, gpu)
    if not resident:
        return math.inf
    blocks = sizes.s * tile.parts * -(-sizes.i // tile.rows) * -(-sizes.j // tile.columns)
    steps = -(-sizes.k // (tile.step * tile.parts))
    busiest = -(-blocks // gpu.multiprocessors)
    at_once = min(busiest, resident)
    warps = at_once * -(-tile.threads // WARP)
    compute = tile.rows * tile.columns * tile.step / (gpu.lanes * tile.rate)
    stored = (tile.rows + tile.columns) * sizes.bytes
    shared = (tile.threads * tile.reads + _CONFLICTS * stored) * tile.step / (gpu.banks * 4)
    fetched = (tile.rows + tile.columns) * tile.step * sizes.bytes / gpu.cache_rate
    busy = math.hypot(compute / min(1.0, warps / gpu.busy_warps), shared, fetched) + gpu.barrier / at_once
    # What is fetched ahead arrives while the lanes work; otherwise other blocks have to fill the time.
    waited = max(0.0, gpu.latency - (busy * at_once if tile.is_ahead else busy * (at_once - 1))) / at_once
    written = tile.rows * tile.columns * 4 / gpu.cache_rate
    cycles = busiest * (steps * (busy + waited) + written) + gpu.latency * -(-busiest // resident)
    operands = sizes.s * (sizes.i + sizes.j) * sizes.k * sizes.bytes
    results = sizes.s * sizes.i * sizes.j * sizes.bytes
    taken = max(cycles / gpu.clock, (operands + results) / gpu.memory_rate)
    if tile.parts == 1:
        return taken
    added_up = 2 * tile.parts * sizes.s * sizes.i * sizes.j * 4
    return taken + gpu.launch + added_up / (gpu.cache_rate * gpu.multiprocessors * gpu.clock)
