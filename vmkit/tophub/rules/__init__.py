"""Schedule rules for kernels on a CPU: how loops are ordered, tiled, vectorised and shared among cores.

A rule takes a schedule of one kernel, in which chains of elementwise blocks have been inlined, and says whether it
applies and with which decisions. :func:`schedule_kernels` tries them in order.
"""

from __future__ import annotations

import logging
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.target import Target

from ..vector_math import with_vector_math
from . import contraction, dot, elementwise, filled, packed, rows, window
from .blocks import inline_cheap_blocks, kernel_blocks
from .overlap import with_overlaps
from .rule import Rule
from .sizes import with_sizes
from .tiles import with_tiles

__all__ = ["RULES", "Rule", "finished", "prepared", "schedule_kernels"]

logger = logging.getLogger(__name__)

# The most special first.
RULES: tuple[Rule[Any], ...] = (
    filled.RULE,
    packed.RULE,
    window.RULE,
    contraction.RULE,
    dot.RULE,
    rows.RULE,
    elementwise.RULE,
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


def prepared(function: tirx.PrimFunc) -> s_tir.Schedule | None:
    """Return the schedule of a kernel that rules decide on; None for loops that stay as they were written."""
    schedule = s_tir.Schedule(function)
    if not kernel_blocks(schedule):
        return None
    inline_cheap_blocks(schedule)
    return schedule


def finished(schedule: s_tir.Schedule, target: Target) -> tirx.PrimFunc:
    """Return the kernel that a rule has scheduled."""
    function = with_vector_math(with_sizes(with_overlaps(schedule.mod["main"]), target))
    return function.with_attr("tirx.is_scheduled", True)


def _scheduled(name: str, function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    plain = prepared(function)
    if plain is None:
        return function
    tiled = with_tiles(plain.mod["main"], target)
    if tiled is not None:
        return with_vector_math(tiled).with_attr("tirx.is_scheduled", True)
    for rule in RULES:
        try:
            decisions = rule.decide(plain, target)
            if decisions is None:
                continue
            schedule = plain.copy()
            rule.apply(schedule, target, decisions)
        except s_tir.ScheduleError as error:
            # A primitive refused this kernel's shape; the loops as they are stay right, only slower.
            logger.debug("kernel %s: %s does not apply: %s", name, rule.name, error)
            continue
        return finished(schedule, target)
    return function
