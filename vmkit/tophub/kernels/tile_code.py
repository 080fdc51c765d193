"""The instructions of a product on the matrix unit, and of splitting float32 in parts, written into TIR's builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.script import tirx as E
from tvm.script.ir_builder import tirx as T

from .tile_plan import LANES, int64
from .tiled_weight import BLOCK, TILE

__all__ = [
    "Operands",
    "configure",
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

    Four tiles hold sums. Where there are only two, the products with low parts have sums of their own, so that no
    product waits long for the one before it.
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
    """Write one step of the sums: low parts of the data by high ones of the weight, high by high, high by low."""
    has_four = high * wide == 4
    for data_part, weight_part in ((1, 0), (0, 0), (0, 1)):
        for n in range(wide):
            if (data_part, weight_part) != (0, 0):
                load(6 + n, "weight", weight_part, n)
        for m in range(high):
            if weight_part == 0:
                load(4 + m, "data", data_part, m)
            for n in range(wide):
                is_small = not has_four and (data_part, weight_part) != (0, 0)
                dot_tiles(_sum_of(m, n, is_small, wide), 4 + m, 6 + n)


def _sum_of(m: int, n: int, is_small: bool, wide: int) -> int:
    """Return the tile that holds a sum: in rows of two, the small products' after those of the large ones."""
    return 2 * m + n + is_small * (1 if wide == 1 else 2)


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


def store_parts(parts: Any, at: Any, low: Any, spare: Any, values: Any) -> None:
    """Split a vector of float32 in its two parts; `spare`, a register, holds it meanwhile."""
    T.buffer_store(spare, values, [lanes(0)])
    x = spare[lanes(0)]
    high = _rounded(x)
    T.buffer_store(parts, high, [lanes(at)])
    whole = E.reinterpret(f"float32x{LANES}", E.Cast(f"uint32x{LANES}", high) << E.Broadcast(E.uint32(16), LANES))
    # An infinity is its own high part, and nothing is left.
    rest = E.Select(whole == x, E.Broadcast(E.float32(0), LANES), x - whole)
    T.buffer_store(parts, _rounded(rest), [lanes(low + at)])


def spare_vector() -> Any:
    return T.alloc_buffer((LANES,), "float32", scope="local", layout=None)


def zero_parts(parts: Any, at: Any, count: Any, low: Any) -> None:
    """Write zeros to some vectors of both parts."""
    with loop(count) as vector:
        for part in (0, low):
            T.buffer_store(parts, E.Broadcast(E.uint16(0), LANES), [lanes(part + at + vector * LANES)])


def _rounded(x: Any) -> Any:
    """Return the bits of a vector of float32 rounded to bfloat16."""
    made = E.call_llvm_pure_intrin(f"bfloat16x{LANES}", "llvm.x86.avx512bf16.cvtneps2bf16.512", x)
    return E.reinterpret(f"uint16x{LANES}", made)


def lanes(first: Any) -> Any:
    return E.Ramp(int64(first), E.int64(1), LANES)


def loop(count: Any) -> Any:
    return T.serial(int64(count))
