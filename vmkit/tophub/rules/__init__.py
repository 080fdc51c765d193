"""Schedule rules for kernels on a CPU: how loops are ordered, tiled, vectorised and shared among cores.

A rule takes a schedule of one kernel, in which chains of elementwise blocks have been inlined, and says whether it
applies and with which decisions. :func:`schedule_kernels` tries them in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.target import Target

from ..vector_math import with_vector_math
from . import contraction, dot, elementwise, filled, packed, rows, total, transpose, window
from .blocks import inline_cheap_blocks, kernel_blocks
from .overlap import with_overlaps
from .rule import Rule
from .sizes import with_sizes
from .tiles import with_tiles

__all__ = ["CHOSEN", "RULES", "Choice", "Rule", "defaults", "finished", "prepared", "schedule_kernels"]

logger = logging.getLogger(__name__)

# The most special first.
RULES: tuple[Rule[Any], ...] = (
    filled.RULE,
    packed.RULE,
    window.RULE,
    contraction.RULE,
    dot.RULE,
    rows.RULE,
    total.RULE,
    transpose.RULE,
    elementwise.RULE,
)


Choice = tuple[str, Any]
"""How decisions were found, such as ``default``, and the decisions."""

Choose = Callable[[s_tir.Schedule, Rule[Any], Target, Any], Iterable[Choice]]
"""Takes a kernel, its rule, the target and the default decisions; returns what to schedule with, the best first."""

CHOSEN = "vmkit.decisions"  # the attribute of a scheduled kernel that says how its decisions were found


def defaults(sch: s_tir.Schedule, rule: Rule[Any], target: Target, default: Any) -> Iterable[Choice]:
    """Choose a rule's default decisions."""
    return [("default", default)]


def schedule_kernels(mod: tvm.IRModule, target: Target, choose: Choose = defaults) -> tvm.IRModule:
    """Return a module in which every kernel that is not scheduled yet is scheduled for a CPU."""
    scheduled = {
        gvar: _scheduled(gvar.name_hint, function, target, choose)
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


def _scheduled(name: str, function: tirx.PrimFunc, target: Target, choose: Choose) -> tirx.PrimFunc:
    plain = prepared(function)
    if plain is None:
        return function
    tiled = with_tiles(plain.mod["main"], target)
    if tiled is not None:
        return with_vector_math(tiled).with_attrs({"tirx.is_scheduled": True, CHOSEN: "default"})
    for rule in RULES:
        default = rule.decide(plain, target)
        for how, decisions in choose(plain, rule, target, default) if default is not None else ():
            schedule = plain.copy()
            try:
                rule.apply(schedule, target, decisions)
            except s_tir.ScheduleError as error:
                # A primitive refused this kernel's shape; the loops as they are stay right, only slower.
                logger.debug("kernel %s: %s does not apply with %s: %s", name, rule.name, decisions, error)
                continue
            return finished(schedule, target).with_attr(CHOSEN, how)
    return function
