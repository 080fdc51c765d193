"""Several versions of one kernel in one function, of which the size of an axis chooses when the kernel is called.

A tile that may stick out tests its bounds in the innermost loops, and its accumulators cannot live in registers. So an
axis whose size is known at run time only has whole tiles, of which the last overlaps the one before, and there are
versions with smaller tiles for an axis that is shorter than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from tvm import s_tir, tirx

from ..blocks import Loop, extent
from ..expressions import replaced
from ..rule import AnyDecisions, Versions

__all__ = ["by_size", "fewer_rows", "for_fewer_rows"]

_FEWER = (4, 2, 1)  # 4 rows keep the multipliers busy tolerably


class _InRows(AnyDecisions, Protocol):
    """Decisions about how many rows a tile has."""

    @property
    def rows(self) -> int: ...


R = TypeVar("R", bound=_InRows)


def fewer_rows(rows: int) -> list[int]:
    """Return how many rows a tile has where there are fewer than those; each version costs time to compile."""
    return [fewer for fewer in _FEWER if fewer < rows]


def for_fewer_rows(sch: s_tir.Schedule, axis: Loop | None, decisions: R) -> Versions[R] | None:
    """Return versions with fewer `rows` in a tile along an axis; None where its size is known or a tile is one row."""
    if axis is None or extent(sch, axis) is not None or decisions.rows == 1:
        return None
    sizes = [decisions.rows, *fewer_rows(decisions.rows)]
    return sch.get(axis).extent, [(rows, replace(decisions, rows=rows)) for rows in sizes]


def by_size(function: tirx.PrimFunc, size: tirx.Expr, versions: Sequence[tuple[int, tirx.PrimFunc]]) -> tirx.PrimFunc:
    """Return a kernel that runs the first version whose least size is not above the size that there is.

    Parameters
    ----------
    function : PrimFunc
        The kernel that all versions were scheduled from.
    size : Expr
        The size that decides, over variables of the kernel's parameters. Where no version is for it, nothing runs.
    versions : sequence of (int, PrimFunc)
        The least size of each, and the version, in falling order of sizes.
    """
    body: tirx.Stmt = tirx.Evaluate(tirx.IntImm("int32", 0))
    for least, version in reversed(versions):
        one = tirx.IntImm(str(size.ty.dtype), least)
        body = tirx.IfThenElse(size >= one, _body_over(function, version), body)
    # Passes of Relax expect a block around the loops.
    return function.with_body(s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", body)))


def _body_over(function: tirx.PrimFunc, version: tirx.PrimFunc) -> tirx.Stmt:
    """Return a version's body with definitions of its own, over the parameters of the function."""
    renewed = s_tir.renew_defs(version)
    same: dict[tirx.Var, tirx.Var] = {}
    for new, old in zip(renewed.params, function.params, strict=True):
        same[new] = old
        for a, b in zip(getattr(new.ty, "shape", ()), getattr(old.ty, "shape", ()), strict=True):
            if isinstance(a, tirx.Var):
                same[a] = b
    return replaced(renewed.body, same)
