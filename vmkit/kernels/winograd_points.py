"""Winograd's transforms of one axis, from well-conditioned points.

A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks" (2015). A tile of m results of a kernel of r
elements reaches over m + r - 1 elements and is a product of polynomials, evaluated at as many points. The points are 0,
infinity, and pairs of opposite numbers, whose even and odd parts are shared; those of
:data:`.winograd_weight.PAIRS` keep rounding small. On standard normal data and weights, results differ from exact ones
by 1e-6 of their standard deviation (root mean square) and by less than 2e-5 everywhere: on two axes with a reach of 6,
on one axis with a reach of 8. On one axis with a reach of 6, and with a reach of 4, they differ by less than half of
that, about as much as a sum in float32 does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import tirx

from .winograd_weight import PAIRS

__all__ = ["transform_data", "transform_result"]

Keep = Callable[["tirx.Expr"], "tirx.Expr"]
Number = Callable[[float], "tirx.Expr"]


def transform_data(data: Sequence[tirx.Expr], number: Number, keep: Keep) -> list[tirx.Expr]:
    """Return expressions for the products' factors from as many elements of the data; one element stays as it is.

    Parameters
    ----------
    number, keep : callable
        Return a constant like the elements, and a variable for an expression that is used several times.
    """
    if len(data) == 1:
        return list(data)
    pairs, inner = PAIRS[len(data)], []
    for p in pairs:
        factors = _coefficients([q for q in pairs if q != p])
        even, odd = (keep(_weighted(factors, data[first:-1:2], number)) for first in (2, 1))
        odd = _weighted([p], [odd], number)
        inner += [even + odd, even - odd]
    whole = _coefficients(pairs)
    return [_weighted(whole, data[:-1:2], number), *inner, _weighted(whole, data[1::2], number)]


def transform_result(tile: int, products: Sequence[tirx.Expr], number: Number, keep: Keep) -> list[tirx.Expr]:
    """Return expressions for the results of a tile from its products; one product is the result."""
    if len(products) == 1:
        return list(products)
    pairs, (first, *inner, last) = PAIRS[len(products)], products
    sums = [keep(a + b) for a, b in zip(inner[::2], inner[1::2], strict=True)]
    differences = [keep(a - b) for a, b in zip(inner[::2], inner[1::2], strict=True)]
    results = []
    for k in range(tile):
        value = _weighted([p**k for p in pairs], differences if k % 2 else sums, number)
        value = first + value if k == 0 else value
        results.append(value + last if k == tile - 1 else value)
    return results


def _coefficients(roots: Sequence[float]) -> list[float]:
    """Return the coefficients of the product of ``y - p * p``, that of the lowest power first."""
    return [float(c) for c in np.poly([p * p for p in roots])[::-1]] if roots else [1.0]


def _weighted(factors: Sequence[float], terms: Sequence[tirx.Expr], number: Number) -> tirx.Expr:
    """Return a sum of products; a factor of 1 takes no multiplication."""
    total: tirx.Expr | None = None
    for factor, term in sorted(zip(factors, terms, strict=True), key=lambda pair: pair[0] != 1):
        value = term if factor == 1 else number(factor) * term
        total = value if total is None else total + value
    assert total is not None
    return total
