"""The instructions of a matrix unit of tiles (AMX): eight tiles of 16 rows of 64 bytes."""

from __future__ import annotations

from tvm import tirx

from ...target.matrix_unit import PERMISSION
from ..builder import Size, T, as_expr, evaluate, integer

__all__ = ["ask_permission", "clear_tiles", "configure", "dot_tiles", "load_tile", "release", "store_tile"]

_WORDS = (1, 0, 0x0040004000400040, 0x0040004000400040, 0, 0, 0x1010101010101010, 0)


def ask_permission() -> None:
    """Write the system call by which a process gets tiles, and an error where it does not."""
    granted = T.call_extern("int64", "syscall", *(integer(n) for n in PERMISSION))
    message = "the operating system does not let this process use the matrix unit (AMX)"
    with T.Assert(granted == integer(0), message):
        T.evaluate(T.int32(0))


def configure(config: tirx.Buffer) -> None:
    """Give every tile 16 rows of 64 bytes; `config` is memory for eight int64."""
    for at, word in enumerate(_WORDS):
        T.buffer_store(config, integer(word), [at])
    evaluate("ldtilecfg", T.address_of(config[0]))


def clear_tiles(count: int) -> None:
    """Set the first tiles to zeros."""
    for tile in range(count):
        evaluate("tilezero", T.int8(tile))


def load_tile(tile: int, element: tirx.Expr, stride: Size) -> None:
    """Load a tile from an element on; its rows are so many bytes apart."""
    evaluate("tileloadd64", T.int8(tile), T.address_of(element), as_expr(stride))


def store_tile(tile: int, element: tirx.Expr, stride: int) -> None:
    """Store a tile from an element on."""
    evaluate("tilestored64", T.int8(tile), T.address_of(element), integer(stride))


def dot_tiles(name: str, sums: int, data: int, weight: int) -> None:
    """Add the products of two tiles to a third by an instruction."""
    evaluate(name, T.int8(sums), T.int8(data), T.int8(weight))


def release() -> None:
    """Give the tiles up, so that the system need not save them."""
    evaluate("tilerelease")
