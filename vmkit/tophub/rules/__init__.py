"""Schedule rules for kernels on a CPU: how loops are ordered, tiled, vectorised and shared among cores.

A rule takes a schedule of one kernel, in which chains of elementwise blocks have been inlined, and says whether it
applies. :func:`schedule_kernels` tries them in order.
"""

from __future__ import annotations

import logging

import tvm
from tvm import s_tir, tirx
from tvm.target import Target

from ..vector_math import with_vector_math
from . import contraction, dense, dot, elementwise, filled, packed, rows, window
from .blocks import inline_cheap_blocks, kernel_blocks
from .chunks import with_chunks
from .overlap import with_overlaps
from .prefetch import with_prefetches

__all__ = ["RULES", "schedule_kernels"]

logger = logging.getLogger(__name__)

RULES = (
    filled.schedule,
    dense.schedule,
    packed.schedule,
    window.schedule,
    contraction.schedule,
    dot.schedule,
    rows.schedule,
    elementwise.schedule,
)


def schedule_kernels(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """Return a module in which every kernel that is not scheduled yet is scheduled for a CPU."""
    scheduled = {
        gvar: _scheduled(gvar.name_hint, function, target)
        for gvar, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and not function.attrs.get("tirx.is_scheduled", False)
    }
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    result.update(tvm.IRModule(scheduled))
    return result


def _scheduled(name: str, function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    prepared = s_tir.Schedule(function)
    if not kernel_blocks(prepared):
        return function  # loops as they were written
    inline_cheap_blocks(prepared)
    by_rows = dense.schedule_by_rows(prepared, target)
    if by_rows is not None:
        return with_vector_math(by_rows).with_attr("tirx.is_scheduled", True)
    for rule in RULES:
        schedule = prepared.copy()
        try:
            applies = rule(schedule, target)
        except s_tir.ScheduleError as error:
            # A primitive refused this kernel's shape; the loops as they are stay right, only slower.
            logger.debug("kernel %s: %s does not apply: %s", name, rule.__module__, error)
            continue
        if applies:
            scheduled = with_vector_math(with_prefetches(with_chunks(with_overlaps(schedule.mod["main"]))))
            return scheduled.with_attr("tirx.is_scheduled", True)
    return function
