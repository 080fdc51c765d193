"""Checks at run time that name what went wrong.

Relax has one check that needs no Python at run time and that may stand between kernels which are to be fused:
``match_cast``. Its own message speaks of registers, so every check carries a number as an extra dimension; the
number comes back in the message, and the executable keeps the text that belongs to it.
"""

from __future__ import annotations

import re

from tvm import relax

from ..ir import dims
from ..ir.types import Dim

__all__ = ["RuntimeChecks", "explain_failure"]

_FIRST = 7_000_000_000_001  # no dimension of a tensor comes near this
_FAILURE = re.compile(r"\((-?\d+) vs\. (-?\d+)\) : ErrorContext\(match_cast.*?(7\d{12})\]\)\)", re.DOTALL)


class RuntimeChecks:
    """The checks of a module: emits them and keeps their messages by number."""

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def emit(self, builder: relax.BlockBuilder, actual: Dim, expected: Dim, message: str) -> None:
        """Emit a check that two integers are equal, with its message."""
        number = self._numbers.setdefault(message, _FIRST + len(self._numbers))
        self.messages[str(number)] = message
        given = builder.emit(relax.ShapeExpr([dims.as_expr(actual), dims.as_expr(number)]))
        builder.match_cast(given, relax.ShapeType([dims.as_expr(expected), dims.as_expr(number)]))


def explain_failure(text: str, messages: dict[str, str]) -> str | None:
    """Return the message of the check that a run-time error's text speaks of, or None for another error."""
    found = _FAILURE.search(text)
    if found is None or found[3] not in messages:
        return None
    return messages[found[3]].format(actual=found[1], expected=found[2])
