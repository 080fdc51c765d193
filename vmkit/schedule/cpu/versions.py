"""Several versions of one kernel in one function, of which the size of an axis chooses when the kernel is called.

A tile that may stick out tests its bounds in the innermost loops, and its accumulators cannot live in registers. So an
axis whose size is known at run time only has whole tiles, of which the last overlaps the one before, and there are
versions with smaller tiles for an axis that is shorter than one. What all of them begin with, such as padding the data,
stands before them once: it costs as much time to compile as a version does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import tvm_ffi
from tvm import s_tir, tirx

from ..blocks import Loop, extent
from ..expressions import replaced, uses
from ..rule import AnyDecisions, Versions

__all__ = ["by_size", "fewer_rows", "for_fewer_rows", "for_one_row"]

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


def for_one_row(sch: s_tir.Schedule, axis: Loop | None, decisions: R, alone: R) -> Versions[R] | None:
    """Return a version for whole tiles and one for fewer rows, which go `alone`; None as :func:`for_fewer_rows`.

    To be used where one row has work enough that no result waits for another.
    """
    if axis is None or extent(sch, axis) is not None or decisions.rows == 1:
        return None
    return sch.get(axis).extent, [(decisions.rows, decisions), (1, alone)]


def by_size(function: tirx.PrimFunc, size: tirx.Expr, versions: Sequence[tuple[int, tirx.PrimFunc]]) -> tirx.PrimFunc:
    """Return a kernel that runs the first version whose least size is not above the size that there is.

    Parameters
    ----------
    function : PrimFunc
        The kernel that all versions were scheduled from.
    size : Expr
        The size that decides, over variables of the kernel's parameters. Where no version is for it, no result is
        written.
    versions : sequence of (int, PrimFunc)
        The least size of each, and the version, in falling order of sizes.
    """
    stages, buffers, bodies = _first_stages([_body_over(function, version) for _, version in versions])
    body: tirx.Stmt = tirx.Evaluate(tirx.IntImm("int32", 0))
    for (least, _), version in reversed([*zip(versions, bodies, strict=True)]):
        one = tirx.IntImm(str(size.ty.dtype), least)
        body = tirx.IfThenElse(size >= one, version, body)
    # Passes of Relax expect a block around the loops.
    return function.with_body(_root(tirx.SeqStmt([*stages, body]) if stages else body, buffers))


def _first_stages(versions: Sequence[tirx.Stmt]) -> tuple[list[tirx.Stmt], list[tirx.Buffer], list[tirx.Stmt]]:
    """Return the statements that all versions begin with, the buffers that are theirs, and what is left of each."""
    blocks = [each.block for each in versions if isinstance(each, s_tir.SBlockRealize)]
    if len(blocks) < len(versions):
        return [], [], list(versions)  # one that is written out has no stages
    first, *others = blocks
    shared: list[tirx.Stmt] = []
    buffers: list[tirx.Buffer] = []
    same: list[dict[tirx.Var, tirx.Var]] = [{} for _ in others]
    for stage, *counterparts in zip(*(_statements(each)[:-1] for each in blocks), strict=False):
        used = _buffers_in(stage, first)
        found = [
            names | dict(zip(_buffers_in(each, block), used, strict=False))
            for names, each, block in zip(same, counterparts, others, strict=True)
        ]
        renamed = [replaced(each, names) for each, names in zip(counterparts, found, strict=True)]
        if not all(tvm_ffi.structural_equal(stage, each) for each in renamed):
            break
        shared.append(stage)
        buffers += [each for each in used if each not in buffers]
        same = found
    if not shared:
        return [], [], list(versions)
    left: list[tirx.Stmt] = []
    for block, names in zip(blocks, ({}, *same), strict=True):
        rest = _statements(block)[len(shared) :]
        own = [each for each in block.alloc_buffers if names.get(each, each) not in buffers]
        left.append(_root(replaced(tirx.SeqStmt(rest) if len(rest) > 1 else rest[0], names), own))
    return shared, buffers, left


def _statements(block: s_tir.SBlock) -> list[tirx.Stmt]:
    return list(block.body.seq) if isinstance(block.body, tirx.SeqStmt) else [block.body]


def _buffers_in(statement: tirx.Stmt, block: s_tir.SBlock) -> list[tirx.Buffer]:
    """Return the buffers of a block's own that a statement uses, in their order there."""
    return [buffer for buffer in block.alloc_buffers if uses(statement, buffer)]


def _root(body: tirx.Stmt, buffers: Sequence[tirx.Buffer]) -> s_tir.SBlockRealize:
    return s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", body, alloc_buffers=buffers))


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
