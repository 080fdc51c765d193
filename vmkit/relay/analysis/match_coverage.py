"""The values that no clause of a Match covers."""

from __future__ import annotations

import tvm

from ...errors import ModelError
from ..ir import GlobalTypeVar, Match, Pattern, TypeData, find_type
from . import coverage

__all__ = ["unmatched_cases"]


def unmatched_cases(match: Match, mod: tvm.IRModule | None = None) -> list[Pattern]:
    """Return patterns of the values that a Match does not catch; none when it catches all.

    Parameters
    ----------
    match : Match
        The match.
    mod : tvm.IRModule, optional
        The module that defines the data types whose constructors stand in the patterns.

    Raises
    ------
    ModelError
        When the module does not define one of them.
    """

    def definition(header: GlobalTypeVar) -> TypeData:
        if mod is None:
            raise ModelError(f"the constructors of {header} are not known; pass the module that defines it")
        return find_type(mod, header)

    return list(coverage.unmatched_cases(match, definition))
