"""Schedules for kernels on a GPU: TVM's own rules, dlight, where they work, and vmkit's for all else.

A schedule is taken only if :func:`launch_problem` finds nothing wrong with it, so that no kernel ever runs on the host
over the device's memory, and none asks for more threads or memory than a block has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import tvm
from tvm import tirx
from tvm.s_tir import dlight
from tvm.target import Target

from vmkit.errors import CompileError

from .launch import has_threads, launch_problem
from .loops import launch_loops
from .spread import reduce_together, spread_blocks, spread_short

__all__ = ["RULES", "launch_problem", "schedule_kernels"]

logger = logging.getLogger(__name__)

Rule = Callable[[tirx.PrimFunc, Target], "tirx.PrimFunc | None"]


def _dlight(rule: dlight.ScheduleRule) -> Rule:
    def scheduled(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc | None:
        schedule = rule.apply(function, target, False)
        return None if schedule is None else schedule.mod["main"]

    scheduled.__name__ = type(rule).__name__
    return scheduled


RULES: tuple[Rule, ...] = (
    _dlight(dlight.gpu.Matmul()),
    _dlight(dlight.gpu.GEMV()),
    spread_short,
    _dlight(dlight.gpu.Reduction()),
    _dlight(dlight.gpu.GeneralReduction()),
    reduce_together,
    spread_blocks,
    launch_loops,
)


def schedule_kernels(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """Return a module in which every kernel is launched on the threads of a GPU.

    Raises
    ------
    CompileError
        Naming a kernel that cannot be, and why: one that was scheduled for something else beforehand.
    """
    kernels = {
        gvar: _scheduled(gvar.name_hint, function, target)
        for gvar, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and not function.attrs.get("tirx.is_host_func", False)
    }
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    result.update(tvm.IRModule(kernels))
    return result


def _scheduled(name: str, function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    if function.attrs.get("tirx.is_scheduled", False) or has_threads(function):
        problem = launch_problem(function, target)
        if problem is None:
            return function
        raise CompileError(f"the kernel {name} was not made for {target.kind.name}: {problem}")
    found: list[str] = []
    for rule in RULES:
        label = rule.__name__
        try:
            scheduled = rule(function, target)
        except Exception as error:
            # Rules of TVM trip over kernels that they do not know in more ways than one type of error says.
            found.append(f"{label}: {error}")
            logger.debug("kernel %s: %s does not apply: %s", name, label, error)
            continue
        if scheduled is None:
            continue
        problem = launch_problem(scheduled, target)
        if problem is None:
            return scheduled.with_attr("tirx.is_scheduled", True)
        found.append(f"{label}: {problem}")
        logger.debug("kernel %s: %s is not used: %s", name, label, problem)
    raise CompileError(
        f"the kernel {name} cannot be launched on {target.kind.name}: {found[-1] if found else 'no rule'}"
    )
