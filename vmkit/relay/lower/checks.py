"""Checks at run time that name what went wrong.

Relax has one check that needs no Python at run time and that may stand between kernels which are to be fused:
``match_cast``. Its own message speaks of registers, so every check carries a number as an extra dimension, by which
``vmkit.runtime.failures`` finds the text again.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax, tirx

from ..ir import dims
from ..ir.types import Dim

__all__ = ["RuntimeChecks", "is_numbered", "says_values"]

_MESSAGES = "vmkit.messages"  # of a module whose importer has emitted checks: their texts by number
_FIRST = 7_000_000_000_000  # checks are numbered from here: no dimension of a tensor comes near it


def is_numbered(asked: Sequence[tvm.ir.Expr]) -> bool:
    """Say whether what sizes are compared with is that of a check: a size, and the number of its message."""
    return len(asked) == 2 and isinstance(asked[1], tirx.IntImm) and asked[1].value >= _FIRST


def says_values(number: int) -> bool:
    """Say whether the message of a check has in it what was compared; a check of another can be made by a kernel."""
    return number % 2 == 1


class RuntimeChecks:
    """The checks of a module: emits them and keeps their messages by number."""

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    @classmethod
    def of(cls, mod: tvm.IRModule) -> RuntimeChecks:
        """Return the checks that a module has from where it comes, to which more can be added."""
        made = cls()
        for number, message in ((mod.attrs or {}).get(_MESSAGES) or {}).items():
            made.messages[str(number)] = str(message)
            made._numbers[str(message)] = int(number)
        return made

    def noted_in(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return a module that holds the texts of the checks that are in it."""
        return mod.with_attr(_MESSAGES, self.messages) if self.messages else mod

    def emit(self, builder: relax.BlockBuilder, actual: Dim, expected: Dim, message: str) -> None:
        """Emit a check that two integers are equal, with its message."""
        is_fixed = "{actual}" not in message and "{expected}" not in message
        number = self._numbers.setdefault(message, _FIRST + 2 * len(self._numbers) + (not is_fixed))
        self.messages[str(number)] = message
        if isinstance(expected, tvm.ir.Var):
            # A symbol alone would not be compared: Relax takes the cast as its definition and replaces it everywhere.
            expected = tirx.Select(dims.as_expr(actual) == expected, dims.as_expr(actual), expected)
        # The lowering of shapes evaluates a composite expression only where a binding of its own holds it.
        given = builder.emit(relax.ShapeExpr([dims.as_expr(actual), dims.as_expr(number)]))
        asked = relax.ShapeType([dims.as_expr(expected), dims.as_expr(number)])
        # The builder's own match_cast tries to prove that a cast cannot succeed. That was tried before, for less, and
        # with the choices of a broadcast it takes most of the time of lowering.
        builder.emit_normalized(relax.MatchCast(relax.Var("checked", asked), given, asked))
