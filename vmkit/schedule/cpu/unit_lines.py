"""Blocks whose last axes have one place each go along the last axis that has more.

A tensor of one channel, channels last, ends with an axis of 1. A loop over that is no line: what lies in a row is
along the axis before it, which else would be made one with the axes outside of it, at two divisions for each element.
"""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm import unchecked_schedule
from ...kernels.builder import with_fields
from ..expressions import known, replaced, uses

__all__ = ["without_unit_lines"]


def without_unit_lines(sch: s_tir.Schedule) -> s_tir.Schedule:
    """Return the schedule of a kernel whose blocks end with an axis of more than one place, if they have one."""
    function = sch.mod["main"]
    made = function.with_body(
        tvm_ffi.structural_map(function.body, [(s_tir.SBlockRealize, _without_units), (tirx.For, _without_loop)])
    )
    return sch if made.body.same_as(function.body) else unchecked_schedule(made)


def _without_units(realize: s_tir.SBlockRealize) -> s_tir.SBlockRealize:
    block = realize.block
    axes = list(block.iter_vars)
    if any(axis.iter_type != tirx.IterVar.DataPar for axis in axes) or not isinstance(block.body, tirx.BufferStore):
        return realize
    kept = len(axes)
    while kept and known(axes[kept - 1].dom.extent) == 1:
        kept -= 1
    # Lines of known sizes are made long ones together with what is inside of them.
    if kept in (0, len(axes)) or known(axes[kept - 1].dom.extent) is not None:
        return realize
    values = {axis.var: axis.dom.min for axis in axes[kept:]}
    changed = {name: replaced(getattr(block, name), values) for name in ("body", "reads", "writes")}
    return s_tir.SBlockRealize(
        list(realize.iter_values)[:kept], realize.predicate, with_fields(block, iter_vars=axes[:kept], **changed)
    )


def _without_loop(loop: tirx.For) -> tirx.Stmt:
    is_of_block = isinstance(loop.body, s_tir.SBlockRealize) and known(loop.extent) == 1
    return loop.body if is_of_block and not uses(loop.body, loop.loop_var) else loop
