"""Arithmetic and comparison of dimensions: ints, symbolic integers, and the unknown ``Any``.

Everything that computes a shape goes through here, so that an unknown dimension stays unknown, constants stay ``int``,
and symbolic expressions are simplified to one form. A symbol is a size: it is not negative.
"""

from ..dim import Any, Dim
from .arithmetic import (
    LARGEST_POWER,
    add,
    canonical,
    ceildiv,
    floordiv,
    floormod,
    maximum,
    minimum,
    mul,
    power,
    product,
    select,
    sub,
)
from .cases import by_cases, in_ranges
from .comparison import absorbs, at_least, broadcast, equal, larger, more_than, same_size, smaller
from .division import exact_division, factors, quotient, truncdiv, truncmod, uncommon
from .expressions import (
    as_expr,
    choices,
    int64,
    is_any,
    is_long,
    is_static,
    renamed,
    simplify,
    structural_key,
    substitute,
    symbols,
)

__all__ = [
    "LARGEST_POWER",
    "Any",
    "Dim",
    "absorbs",
    "add",
    "as_expr",
    "at_least",
    "broadcast",
    "by_cases",
    "canonical",
    "ceildiv",
    "choices",
    "equal",
    "exact_division",
    "factors",
    "floordiv",
    "floormod",
    "in_ranges",
    "int64",
    "is_any",
    "is_long",
    "is_static",
    "larger",
    "maximum",
    "minimum",
    "more_than",
    "mul",
    "power",
    "product",
    "quotient",
    "renamed",
    "same_size",
    "select",
    "simplify",
    "smaller",
    "structural_key",
    "sub",
    "substitute",
    "symbols",
    "truncdiv",
    "truncmod",
    "uncommon",
]
