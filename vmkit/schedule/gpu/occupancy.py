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
from dataclasses import dataclass

from .limits import Limits

__all__ = ["Sizes", "Tile", "resident_blocks", "seconds"]

_CLOCK = 1.4e9  # cycles in a second
_BANKS = 32  # of shared memory, four bytes each in a cycle
_CACHE = 32  # bytes in a cycle from the cache that all share, of one multiprocessor
_CONFLICTS = 2  # how often threads that store into shared memory meet in a bank
_MEMORY = 1.2e12  # bytes in a second
_LATENCY = 500  # cycles until what is fetched is there
_BARRIER = 40  # cycles of a step that all threads of a block wait for each other
_WARP = 32
_BUSY = 12  # warps that keep the lanes of a multiprocessor busy
_LAUNCH = 2.5e-6  # seconds from one launch to the next


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


def resident_blocks(tile: Tile, limits: Limits) -> int:
    """Return how many blocks a multiprocessor holds; 0 where a block is too large for it."""
    if tile.threads > limits.threads or tile.shared > limits.shared or tile.registers > limits.registers:
        return 0
    # Registers are given to warps in units of 256.
    of_warp = -(-tile.registers * _WARP // 256) * 256
    warps = -(-tile.threads // _WARP)
    return min(
        limits.resident_threads // tile.threads,
        limits.resident_blocks,
        limits.resident_shared // max(tile.shared, 1),
        limits.resident_registers // (of_warp * warps),
    )


def seconds(sizes: Sizes, tile: Tile, limits: Limits) -> float:
    """Return how long products take by the model; infinity where a block is too large."""
    resident = resident_blocks(tile, limits)
    if not resident:
        return math.inf
    blocks = sizes.s * tile.parts * -(-sizes.i // tile.rows) * -(-sizes.j // tile.columns)
    steps = -(-sizes.k // (tile.step * tile.parts))
    busiest = -(-blocks // limits.multiprocessors)
    at_once = min(busiest, resident)
    warps = at_once * -(-tile.threads // _WARP)
    compute = tile.rows * tile.columns * tile.step / (limits.lanes * tile.rate)
    stored = (tile.rows + tile.columns) * sizes.bytes
    shared = (tile.threads * tile.reads + _CONFLICTS * stored) * tile.step / (_BANKS * 4)
    fetched = (tile.rows + tile.columns) * tile.step * sizes.bytes / _CACHE
    busy = math.hypot(compute / min(1.0, warps / _BUSY), shared, fetched) + _BARRIER / at_once
    # What is fetched ahead arrives while the lanes work; otherwise other blocks have to fill the time.
    waited = max(0.0, _LATENCY - (busy * at_once if tile.is_ahead else busy * (at_once - 1))) / at_once
    written = tile.rows * tile.columns * 4 / _CACHE
    cycles = busiest * (steps * (busy + waited) + written) + _LATENCY * -(-busiest // resident)
    operands = sizes.s * (sizes.i + sizes.j) * sizes.k * sizes.bytes
    results = sizes.s * sizes.i * sizes.j * sizes.bytes
    taken = max(cycles / _CLOCK, (operands + results) / _MEMORY)
    if tile.parts == 1:
        return taken
    added_up = 2 * tile.parts * sizes.s * sizes.i * sizes.j * 4
    return taken + _LAUNCH + added_up / (_CACHE * limits.multiprocessors * _CLOCK)
