"""Schedules for kernels on a GPU: vmkit's rules, and TVM's own, dlight, where these are as good.

A schedule is taken only if :func:`launch_problem` finds nothing wrong with it, so that no kernel ever runs on the host
over the device's memory, and none asks for more threads or memory than a block has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import dlight
from tvm.target import Target

from ...errors import CompileError
from ..rule import CHOSEN, Choose, D, Rule, defaults
from . import elements, tensor_tiles, tiles
from .launch import has_threads, launch_problem
from .loops import launch_loops
from .spread import prepare, reduce_together, spread_blocks
from .whole import Fixed, dlight_rule
from .whole import whole as whole_rule

__all__ = ["RULE", "RULES", "launch_problem", "prepared", "schedule_kernels", "scheduled"]

logger = logging.getLogger(__name__)

RULE = "vmkit.rule"  # the attribute of a scheduled kernel that names its rule

# The most special first.
RULES: tuple[Rule[Any], ...] = (
    tensor_tiles.RULE,
    tiles.RULE,
    dlight_rule("gpu.matmul", dlight.gpu.Matmul()),
    dlight_rule("gpu.gemv", dlight.gpu.GEMV()),
    elements.RULE,
    dlight_rule("gpu.reduction", dlight.gpu.Reduction()),
    dlight_rule("gpu.rows", dlight.gpu.GeneralReduction()),
    whole_rule("gpu.together", reduce_together),
    whole_rule("gpu.spread", spread_blocks),
    whole_rule("gpu.loops", launch_loops),
)


def schedule_kernels(mod: tvm.IRModule, target: Target, choose: Choose = defaults) -> tvm.IRModule:
    """Return a module in which every kernel is launched on the threads of a GPU.

    Raises
    ------
    CompileError
        Naming a kernel that cannot be, and why: one that was scheduled for something else beforehand.
    """
    kernels = {
        gvar: _scheduled(gvar.name_hint, function, target, choose)
        for gvar, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and not function.attrs.get("tirx.is_host_func", False)
    }
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    result.update(tvm.IRModule(kernels))
    return result


def prepared(function: tirx.PrimFunc) -> s_tir.Schedule:
    """Return the schedule of a kernel that rules decide on."""
    return prepare(function)


def scheduled(plain: s_tir.Schedule, rule: Rule[D], target: Target, decisions: D) -> tirx.PrimFunc:
    """Return a prepared kernel as a rule schedules it with some decisions.

    Raises
    ------
    CompileError
        If the rule is not for this kernel, or what comes out cannot be launched.
    """
    schedule = plain.copy()
    try:
        made = rule.apply(schedule, target, decisions) or schedule
    except Exception as error:
        # Rules of TVM trip over kernels that they do not know in more ways than one type of error says.
        raise CompileError(f"{rule.name}: {error}") from error
    function = made.mod["main"]
    problem = launch_problem(function, target)
    if problem is not None:
        raise CompileError(f"{rule.name}: {problem}")
    return function.with_attrs({"tirx.is_scheduled": True, RULE: rule.name})


def _scheduled(name: str, function: tirx.PrimFunc, target: Target, choose: Choose) -> tirx.PrimFunc:
    if function.attrs.get("tirx.is_scheduled", False) or has_threads(function):
        problem = launch_problem(function, target)
        if problem is None:
            return function
        raise CompileError(f"the kernel {name} was not made for {target.kind.name}: {problem}")
    whole, plain, reason = s_tir.Schedule(function), prepared(function), "no rule"
    for rule in RULES:
        given = whole if rule.decisions is Fixed else plain
        for how, decisions in _choices(given, rule, target, choose):
            try:
                return scheduled(given, rule, target, decisions).with_attr(CHOSEN, how)
            except CompileError as error:
                reason = str(error)
                logger.debug("kernel %s: with %s, %s", name, decisions, error)
    raise CompileError(f"the kernel {name} cannot be launched on {target.kind.name}: {reason}")


def _choices(sch: s_tir.Schedule, rule: Rule[D], target: Target, choose: Choose) -> Iterable[tuple[str, D]]:
    default = rule.decide(sch, target)
    if default is None:
        return ()
    return [("default", default)] if rule.decisions is Fixed else choose(sch, rule, target, default)
