"""The instructions of a product on the matrix unit, and of splitting float32 in parts, written into TIR's builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script import tirx as E
from tvm.script.ir_builder import tirx as T

from .tile_plan import LANES, int64
from .tiled_weight import BLOCK, DEPTH, PARTS, PRODUCTS, TILE

__all__ = [
    "Operands",
    "configure",
    "cut_panel",
    "emit_tiles",
    "evaluate",
    "lanes",
    "load_tile",
    "loop",
    "spare_vector",
    "store_parts",
    "zero_parts",
]

Operands = Callable[[Any, Any, Any], Callable[[int, str, int, int], None]]
"""Takes a run, row and column of the sum, and returns what loads a tile: register, operand, part and number."""


def emit_tiles(operands: Operands, runs: tuple[int, int, int], sums: Any, high: int, wide: int) -> None:
    """Write the sums of `high` tiles of positions by `wide` tiles of outputs.

    Four tiles hold sums. Where there are only two, every other product has a sum of its own, so that none waits long
    for the one before it.
    """
    rows, columns, count = runs
    for tile in range(4):
        evaluate("tilezero", E.int8(tile))
    with loop(count) as run, loop(rows) as row, loop(columns) as column:
        _emit_step(operands(run, row, column), high, wide)
    places = [(tile, tile // 2 * TILE * BLOCK + tile % 2 * TILE) for tile in range(4)]
    for tile, at in places:
        evaluate("tilestored64", E.int8(tile), E.address_of(sums[at]), E.int64(BLOCK * 4))
    if high * wide == 4:
        return
    other = TILE * BLOCK if wide == 2 else TILE
    with loop(high * TILE) as row, T.vectorized(wide * TILE) as lane:
        at = row * BLOCK + lane
        T.buffer_store(sums, sums[at] + sums[at + other], [at])


def _emit_step(load: Callable[[int, str, int, int], None], high: int, wide: int) -> None:
    """Write one step of the sums: every product of parts, each part loaded where it was not for the one before."""
    loaded: tuple[int | None, int | None] = (None, None)
    for number, (data, weight) in enumerate(PRODUCTS):
        for m in range(high):
            if data != loaded[0]:
                load(4 + m, "data", data, m)
            for n in range(wide):
                if m == 0 and weight != loaded[1]:
                    load(6 + n, "weight", weight, n)
                dot_tiles(_sum_of(m, n, high, wide, number % 2), 4 + m, 6 + n)
        loaded = (data, weight)


def _sum_of(m: int, n: int, high: int, wide: int, odd: int) -> int:
    """Return the tile that holds a sum: two a row of tiles; beside or below it the odd products' where it has one."""
    if high * wide == 4:
        return 2 * m + n
    return 2 * m + odd if wide == 1 else n + 2 * odd


def configure(config: Any) -> None:
    """Give every tile 16 rows of 64 bytes."""
    words = (1, 0, 0x0040004000400040, 0x0040004000400040, 0, 0, 0x1010101010101010, 0)
    for at, word in enumerate(words):
        T.buffer_store(config, E.int64(word), [at])
    evaluate("ldtilecfg", E.address_of(config[0]))


def load_tile(tile: int, element: Any, stride: int) -> None:
    evaluate("tileloadd64", E.int8(tile), E.address_of(element), E.int64(stride))


def dot_tiles(sums: int, data: int, weight: int) -> None:
    evaluate("tdpbf16ps", E.int8(sums), E.int8(data), E.int8(weight))


def evaluate(name: str, *args: Any) -> None:
    T.evaluate(E.call_llvm_intrin("void", f"llvm.x86.{name}", *args))


def store_parts(parts: Any, at: Any, apart: Any, spare: Any, values: Any) -> None:
    """Cut a vector of float32 in its parts, which lie `apart`; `spare`, a register, holds what is left meanwhile."""
    T.buffer_store(spare, values, [lanes(0)])
    for part in range(PARTS):
        bits = E.reinterpret(f"uint32x{LANES}", spare[lanes(0)])
        T.buffer_store(parts, E.Cast(f"uint16x{LANES}", bits >> _all("uint32", 16)), [lanes(at + part * apart)])
        if part + 1 < PARTS:
            _take_part(spare)


def cut_panel(panel: Any, weight: Any, block: Any, inner: int) -> None:
    """Cut a block of a float32 weight (blocks, inner, BLOCK), `inner` even, in parts, in the order of a packed weight.

    A number of the panel, a uint32, holds the part of two inputs that follow each other.
    """
    steps = -(-inner // DEPTH)
    left = [spare_vector(), spare_vector()]

    def place(pair: Any, part: int, half: int) -> Any:
        tile = (pair // (DEPTH // 2) * PARTS + part) * 2 + half
        return [lanes((tile * TILE + pair % (DEPTH // 2)) * TILE)]

    with loop(inner // 2) as pair:
        for half in range(2):
            for which, spare in enumerate(left):
                T.buffer_store(spare, weight[block, pair * 2 + which, lanes(half * TILE)], [lanes(0)])
            for part in range(PARTS):
                bits = [E.reinterpret(f"uint32x{LANES}", spare[lanes(0)]) for spare in left]
                both = (bits[0] >> _all("uint32", 16)) | (bits[1] & _all("uint32", 0xFFFF0000))
                T.buffer_store(panel, both, place(pair, part, half))
                for spare in left if part + 1 < PARTS else ():
                    _take_part(spare)
    if inner % DEPTH:
        with loop(steps * DEPTH // 2 - inner // 2) as extra:
            for half in range(2):
                for part in range(PARTS):
                    T.buffer_store(panel, _all("uint32", 0), place(extra + inner // 2, part, half))


def _take_part(spare: Any) -> None:
    """Take the high part from a vector of float32."""
    x = spare[lanes(0)]
    cut = E.reinterpret(f"float32x{LANES}", E.reinterpret(f"uint32x{LANES}", x) & _all("uint32", 0xFFFF0000))
    # An infinity is its own high part, and nothing is left.
    T.buffer_store(spare, E.Select(cut == x, _all("float32", 0), x - cut), [lanes(0)])


def spare_vector() -> Any:
    return T.alloc_buffer((LANES,), "float32", scope="local", layout=None)


def zero_parts(parts: Any, at: Any, count: Any, apart: Any) -> None:
    """Write zeros to some vectors of all parts."""
    with loop(count) as vector:
        for part in range(PARTS):
            T.buffer_store(parts, _all("uint16", 0), [lanes(at + vector * LANES + part * apart)])


def _all(dtype: str, value: float) -> Any:
    return E.Broadcast(tirx.const(value, dtype), LANES)


def lanes(first: Any) -> Any:
    return E.Ramp(int64(first), E.int64(1), LANES)


def loop(count: Any) -> Any:
    return T.serial(int64(count))
