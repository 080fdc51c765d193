"""Dimensions drawn by chance, each with what it is for sizes that are known."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.relay.ir.dims.symbols import m, n
from vmkit.relay.ir import Dim, dims

Number = Callable[[int, int], int]

_OPERATIONS: tuple[tuple[Callable[[Dim, Dim], Dim], Callable[[int, int], int]], ...] = (
    (dims.add, lambda x, y: x + y),
    (dims.sub, lambda x, y: x - y),
    (dims.maximum, max),
    (dims.minimum, min),
)
_BY_NUMBER: tuple[tuple[Callable[[Dim, Dim], Dim], Callable[[int, int], int]], ...] = (
    (dims.mul, lambda x, y: x * y),
    (dims.floordiv, lambda x, y: x // y),
    (dims.floormod, lambda x, y: x % y),
    (dims.truncdiv, lambda x, y: abs(x) // abs(y) * (1 if (x >= 0) == (y >= 0) else -1)),
    (dims.add, lambda x, y: x + y),
)


def drawn(by: random.Random, depth: int = 5) -> tuple[Dim, Number]:
    """Return a dimension of `n` and `m`, and the same of two numbers."""
    if depth == 0:
        return by.choice([(n, lambda a, b: a), (m, lambda a, b: b), (n, lambda a, b: a)])
    kind = by.random()
    x, of_x = drawn(by, depth - 1)
    if kind < 0.6:
        (made, known), number = by.choice(_BY_NUMBER), by.choice([-6, -3, -2, 2, 3, 4, 6, 32])
        return made(x, number), lambda a, b: known(of_x(a, b), number)
    y, of_y = drawn(by, by.randrange(depth))
    if kind < 0.8:
        made, known = by.choice(_OPERATIONS)
        return made(x, y), lambda a, b: known(of_x(a, b), of_y(a, b))
    remainder = by.choice([2, 3])
    holds = dims.select(dims.as_expr(dims.floormod(x, remainder)) == 0, 1, 0)

    def chosen(a: int, b: int) -> int:
        return of_y(a, b) if of_x(a, b) % remainder == 0 else -of_x(a, b)

    if kind < 0.9:
        return dims.select(dims.as_expr(holds) != 0, y, dims.sub(0, x)), chosen
    # The same as two products with a flag.
    flag = dims.select(dims.as_expr(holds) == 0, 1, 0)
    return dims.sub(dims.mul(y, holds), dims.mul(x, flag)), chosen
