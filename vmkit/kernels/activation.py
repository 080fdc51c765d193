"""What a kernel does with its sums before they are results: limits, and a function of each number by itself.

A function is a program in text, in postfix notation: ``x`` is the number, numbers stand for themselves, and each name
of :data:`OPERATIONS` takes what was left last. ``"x x 3.0 add 0.0 maximum 6.0 minimum multiply"`` is
``x * min(max(x + 3, 0), 6)``. What takes polynomials, such as a logistic function, is none of them: written out for
each vector of a tile it would take longer to compile than a kernel of its own, and hardly less time to run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

from tvm import tirx

from .builder import T, splat

__all__ = ["OPERATIONS", "finished", "require_activation"]


def _maximum(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    return tirx.Max(b, a)  # the limit first, so that NaN stays NaN


def _minimum(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    return tirx.Min(b, a)


def _leaky_relu(x: tirx.Expr, alpha: tirx.Expr) -> tirx.Expr:
    return tirx.Select(x > tirx.const(0.0, x.ty.dtype), x, x * alpha)


OPERATIONS: Mapping[str, Callable[[tirx.Expr, tirx.Expr], tirx.Expr]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "maximum": _maximum,
    "minimum": _minimum,
    "nn.leaky_relu": _leaky_relu,
}
"""Steps by Relay's name of the operator, each of two numbers: the second of a maximum, a minimum or a leaky_relu is
constant."""


@lru_cache
def require_activation(program: str) -> None:
    """Refuse with ValueError a program that names what there is not, or does not leave one number."""
    depth = 0
    for word in program.split():
        if word in OPERATIONS:
            if depth < 2:
                raise ValueError(f"{word} in the activation {program!r} takes two numbers, there are {depth}")
            depth -= 1
            continue
        try:
            float(word if word != "x" else 0)
        except ValueError:
            known = ", ".join(OPERATIONS)
            raise ValueError(f"{word!r} in the activation {program!r} is none of x, a number, {known}") from None
        depth += 1
    if program and depth != 1:
        raise ValueError(f"the activation {program!r} leaves {depth} numbers, expected one")


def finished(value: tirx.Expr, low: float | None, high: float | None, program: str, lanes: int) -> tirx.Expr:
    """Return a vector of results: of sums, raised to a limit and lowered to another, what a program makes.

    There need not be any of these three.
    """
    if low is not None:
        value = tirx.Max(splat(low, lanes), value)  # the limit first, so that NaN stays NaN
    if high is not None:
        value = tirx.Min(splat(high, lanes), value)
    if not program:
        return value
    require_activation(program)
    value = T.Bind(value)
    left: list[tirx.Expr] = []
    for word in program.split():
        if word in OPERATIONS:
            second, first = left.pop(), left.pop()
            left.append(OPERATIONS[word](first, second))
        else:
            left.append(value if word == "x" else splat(float(word), lanes))
    return left[0]
