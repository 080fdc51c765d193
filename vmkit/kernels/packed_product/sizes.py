"""Sizes and places as kernels compute them: numbers where they are known, expressions that stay as written otherwise.

What a kernel computes once and what it computes at every place is decided where it is written. So nothing here is
simplified but what :mod:`vmkit.relay.ir.dims` is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from ...relay.ir import dims
from ..builder import Size, T, as_expr

__all__ = [
    "at_once",
    "bound",
    "ceildiv",
    "divided",
    "even_tile",
    "is_same",
    "known",
    "least",
    "least_value",
    "most",
    "unravel",
]


def known(size: Size) -> Size:
    """Return a size as a number where it is one."""
    return int(size.value) if isinstance(size, tirx.IntImm) else size


def bound(value: Size) -> Size:
    """Return a number as it is, and a variable for what is computed at run time, here, where this is called."""
    return value if isinstance(value, int | tirx.Var) else T.Bind(value)


def divided(value: Size, by: Size) -> tuple[Size, Size]:
    """Return quotient and remainder of numbers that are not negative."""
    if isinstance(by, int):
        return value // by, value % by
    return tirx.truncdiv(value, by), tirx.truncmod(value, by)  # which test no signs


def ceildiv(value: Size, by: Size) -> Size:
    """Return a quotient rounded up."""
    return (value + (by - 1)) // by


def least(a: Size, b: Size) -> Size:
    """Return the smaller one of two sizes."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.min(as_expr(a), as_expr(b))


def most(a: Size, b: Size) -> Size:
    """Return the larger one of two sizes."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.max(as_expr(a), as_expr(b))


def at_once(size: Size, fit: Size) -> Size:
    """Return how many of some rows or images to have at once: as many as fit where it is unknown how many there are."""
    if is_same(size, 1):
        return 1
    return fit if isinstance(fit, int) and not isinstance(size, int) else least(size, fit)


def even_tile(have: int, most: int) -> int:
    """Return how many of some rows, at most so many, to compute at once, so that little is computed twice."""
    sizes = range(max(1, min(have, most) // 2), min(have, most) + 1)
    return min(sizes, key=lambda size: (-(-have // size) * (size + 1), -size))


def is_same(a: Size, b: Size) -> bool:
    """Say whether two sizes are one number, or one expression."""
    return a == b if isinstance(a, int) and isinstance(b, int) else a is b


def least_value(size: Size) -> int:
    """Return a size where all that is unknown in it is 1."""
    smallest = dims.substitute(size, {v: tirx.IntImm(str(v.ty.dtype), 1) for v in dims.symbols([size])})
    return smallest if isinstance(smallest, int) else 1


def unravel(at: Size, sizes: Sequence[Size]) -> list[Size]:
    """Return the index in axes of some sizes of an element counted in the order of memory.

    An axis of 1 has no other index than 0, by which kernels find out that what lies along it is the same everywhere.
    """
    if sizes and is_same(sizes[0], 1):
        return [as_expr(0), *unravel(at, sizes[1:])] if len(sizes) > 1 else [at]
    index: list[Size] = []
    for size in reversed(sizes[1:]):
        at, place = divided(at, size)
        index.append(place)
    return [at, *reversed(index)]
