"""The instructions of a product of bfloat16 parts on AMX tiles, and of cutting float32 in parts."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from ..builder import Size, T, as_expr, local, loop, ramp, reinterpreted, splat
from .amx import clear_tiles, dot_tiles, store_tile
from .shape import BLOCK, TILE

__all__ = [
    "DEPTH",
    "LANES",
    "PARTS",
    "LoadTile",
    "Operands",
    "cut_panel",
    "emit_tiles",
    "lanes",
    "spare_vector",
    "store_parts",
    "zero_parts",
]

PARTS = 3
"""How many bfloat16 a float32 is the sum of."""
_PRODUCTS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2))
"""The products of parts that are summed up, of the data and of the weight; each shares a part with the one before."""
DEPTH = 32
"""How many inputs a tile takes at once."""
LANES = 16
"""How many float32 a vector has."""

LoadTile = Callable[[int, str, int, int], None]
"""Loads a tile: its register, the operand, the part, and which of the operand's tiles."""
Operands = Callable[[Size, Size, Size], LoadTile]
"""Takes a run of inputs, row and column of the sum, and returns what loads its tiles."""


def emit_tiles(operands: Operands, runs: tuple[int, int, int], sums: tirx.Buffer, high: int, wide: int) -> None:
    """Write the sums of `high` tiles of positions by `wide` tiles of outputs.

    Four tiles hold sums. Where there are only two, every other product has a sum of its own, so that none waits long
    for the one before it.
    """
    rows, columns, count = runs
    clear_tiles(4)
    with loop(count) as run, loop(rows) as row, loop(columns) as column:
        _emit_step(operands(run, row, column), high, wide)
    for tile in range(4):
        store_tile(tile, sums[tile // 2 * TILE * BLOCK + tile % 2 * TILE], BLOCK * 4)
    if high * wide == 4:
        return
    other = TILE * BLOCK if wide == 2 else TILE
    with loop(high * TILE) as row, T.vectorized(wide * TILE) as lane:
        at = row * BLOCK + lane
        T.buffer_store(sums, sums[at] + sums[at + other], [at])


def _emit_step(load: LoadTile, high: int, wide: int) -> None:
    """Write one step of the sums: every product of parts, each part loaded where it was not for the one before."""
    loaded: tuple[int | None, int | None] = (None, None)
    for number, (data, weight) in enumerate(_PRODUCTS):
        for m in range(high):
            if data != loaded[0]:
                load(4 + m, "data", data, m)
            for n in range(wide):
                if m == 0 and weight != loaded[1]:
                    load(6 + n, "weight", weight, n)
                dot_tiles("tdpbf16ps", _sum_of(m, n, high, wide, number % 2), 4 + m, 6 + n)
        loaded = (data, weight)


def _sum_of(m: int, n: int, high: int, wide: int, odd: int) -> int:
    """Return the tile that holds a sum: two a row of tiles; beside or below it the odd products' where it has one."""
    if high * wide == 4:
        return 2 * m + n
    return 2 * m + odd if wide == 1 else n + 2 * odd


def store_parts(parts: tirx.Buffer, at: Size, apart: Size, spare: tirx.Buffer, values: tirx.Expr) -> None:
    """Cut a vector of float32 in its parts, which lie `apart`; `spare`, a register, holds what is left meanwhile."""
    T.buffer_store(spare, values, [lanes(0)])
    for part in range(PARTS):
        high = tirx.Cast(f"uint16x{LANES}", _bits(spare) >> splat(16, LANES, "uint32"))
        T.buffer_store(parts, high, [lanes(at + part * apart)])
        if part + 1 < PARTS:
            _take_part(spare)


def cut_panel(panel: tirx.Buffer, weight: tirx.Buffer, block: Size, inner: int) -> None:
    """Cut a block of a float32 weight (blocks, inner, BLOCK), `inner` even, in parts, in the order of a packed weight.

    A number of the panel, a uint32, holds the part of two inputs that follow each other.
    """
    steps = -(-inner // DEPTH)
    left = [spare_vector(), spare_vector()]

    def place(pair: Size, part: int, half: int) -> list[tirx.Expr]:
        tile = (pair // (DEPTH // 2) * PARTS + part) * 2 + half
        return [lanes((tile * TILE + pair % (DEPTH // 2)) * TILE)]

    with loop(inner // 2) as pair:
        for half in range(2):
            for which, spare in enumerate(left):
                T.buffer_store(spare, weight[block, pair * 2 + which, lanes(half * TILE)], [lanes(0)])
            for part in range(PARTS):
                low, high = (_bits(spare) for spare in left)
                both = (low >> splat(16, LANES, "uint32")) | (high & splat(0xFFFF0000, LANES, "uint32"))
                T.buffer_store(panel, both, place(pair, part, half))
                for spare in left if part + 1 < PARTS else ():
                    _take_part(spare)
    if inner % DEPTH:
        with loop(steps * DEPTH // 2 - inner // 2) as extra:
            for half in range(2):
                for part in range(PARTS):
                    T.buffer_store(panel, splat(0, LANES, "uint32"), place(extra + inner // 2, part, half))


def _take_part(spare: tirx.Buffer) -> None:
    """Take the high part from a vector of float32."""
    x = spare[lanes(0)]
    cut = reinterpreted(f"float32x{LANES}", reinterpreted(f"uint32x{LANES}", x) & splat(0xFFFF0000, LANES, "uint32"))
    # An infinity is its own high part, and nothing is left.
    T.buffer_store(spare, tirx.Select(cut == x, splat(0, LANES), x - cut), [lanes(0)])


def _bits(spare: tirx.Buffer) -> tirx.Expr:
    return reinterpreted(f"uint32x{LANES}", spare[lanes(0)])


def spare_vector() -> tirx.Buffer:
    """Return a register for what is left of a vector that is cut."""
    return local(LANES)


def zero_parts(parts: tirx.Buffer, at: Size, count: Size, apart: Size) -> None:
    """Write zeros to some vectors of all parts."""
    with loop(count) as vector:
        for part in range(PARTS):
            T.buffer_store(parts, splat(0, LANES, "uint16"), [lanes(at + vector * LANES + part * apart)])


def lanes(first: Size) -> tirx.Expr:
    """Return the indices of a vector."""
    return ramp(as_expr(first), LANES)
