"""Which operators are worth computing, or can be computed, with numbers of lower precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from ...errors import OptionError, suggest
from ..ir.expr import Call
from .registry import REGISTRY, Mixed

__all__ = [
    "MIXED_PRECISION_ALWAYS",
    "MIXED_PRECISION_FOLLOW",
    "MIXED_PRECISION_NEVER",
    "Conversion",
    "conversion_of",
    "conversions",
    "register_mixed_precision_conversion",
]

# The categories of the entries of operators, as Relay numbered them for those who register conversions.
MIXED_PRECISION_ALWAYS = 0
MIXED_PRECISION_FOLLOW = 1
MIXED_PRECISION_NEVER = 2

_CATEGORIES: dict[Mixed, int] = {
    "always": MIXED_PRECISION_ALWAYS,
    "follow": MIXED_PRECISION_FOLLOW,
    "never": MIXED_PRECISION_NEVER,
}

# f(call, mixed_precision_type) -> [category, data type to accumulate in, data type of the result]
Conversion: TypeAlias = Callable[[Call, str], "Sequence[int | str]"]

_REGISTERED: dict[str, Conversion] = {}


def conversion_of(op_name: str) -> Conversion | None:
    """Return how an operator takes part: as was registered last, else as its entry says; None where neither does."""
    known = REGISTRY.get(op_name)
    if op_name in _REGISTERED or known is None or known.mixed is None:
        return _REGISTERED.get(op_name)
    return partial(_in_category, _CATEGORIES[known.mixed])


def _in_category(category: int, call: Call, dtype: str) -> Sequence[int | str]:
    return [category, dtype, dtype]


def register_mixed_precision_conversion(op_name: str, func: Conversion | None = None, level: int = 10) -> Any:  # noqa: ANN401 - the function, or a decorator
    """Say how an operator takes part in mixed precision; may be used as a decorator.

    Parameters
    ----------
    op_name : str
        The operator.
    func : callable
        Takes a call and the lower data type, and returns the category (``MIXED_PRECISION_ALWAYS``, ``_FOLLOW`` or
        ``_NEVER``), the data type to accumulate in and that of the result.
    level : int
        Relay's priority of registrations. Here the last one counts.
    """

    def register(given: Conversion) -> Conversion:
        _REGISTERED[op_name] = given
        return given

    return register if func is None else register(func)


@contextmanager
def conversions(of_operators: Mapping[str, Conversion]) -> Iterator[None]:
    """Let operators take part in mixed precision in other ways inside, by their names.

    Raises
    ------
    OptionError
        If there is no such operator.
    """
    for name in of_operators:
        if name not in REGISTRY:
            raise OptionError(f"mixed precision: there is no operator {name!r}{suggest(name, REGISTRY)}")
    before = dict(_REGISTERED)
    _REGISTERED.update(of_operators)
    try:
        yield
    finally:
        _REGISTERED.clear()
        _REGISTERED.update(before)
