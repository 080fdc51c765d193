"""Whether shapes agree: as far as it is known when types are inferred, and for certain when a program runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir import dims
from ..ir.types import Dim

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["may_agree", "require_agreed"]


def may_agree(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Say whether two shapes are equally long and no dimension of one is certain to differ from the other's."""
    return len(a) == len(b) and not any(dims.equal(x, y) is False for x, y in zip(a, b, strict=True))


def require_agreed(context: LowerContext, actual: Sequence[Dim], expected: Sequence[Dim], what: str) -> None:
    """Check at run time that an operand, which the error calls `what`, has the dimensions that it has to have."""
    for axis, (have, want) in enumerate(zip(actual, expected, strict=True)):
        message = f"{context.operator}: dimension {axis} of {what} is {{actual}}, expected {{expected}}"
        context.require_equal(have, want, message)
