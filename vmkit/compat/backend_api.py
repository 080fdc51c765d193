"""The functions of Relay's backend that tools called by name."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm.target import Target

from vmkit.relay.ir import Function
from vmkit.target import canonical_target
from vmkit.target.plan import OneTarget, Targets

from .memory_plan import MemoryPlan, graph_plan_memory

__all__ = ["GraphPlanMemory", "build"]


def GraphPlanMemory(func: Function) -> MemoryPlan:
    """Return which values of a function share memory; see :func:`vmkit.compat.memory_plan.graph_plan_memory`."""
    return graph_plan_memory(func)


def build(
    mod: tvm.IRModule | Mapping[Target, tvm.IRModule], target: Targets, target_host: OneTarget | None = None
) -> tvm.runtime.Module:
    """Return kernels as a library.

    Parameters
    ----------
    mod : IRModule, or mapping of Target to IRModule
        The kernels, of one target.
    target, target_host : optional
        What to build for; see :func:`vmkit.target.canonical_target`.

    Raises
    ------
    ValueError
        For kernels of several targets.
    """
    plan = canonical_target(target, target_host)
    modules = [mod] if isinstance(mod, tvm.IRModule) else list(mod.values())
    if len(modules) != 1:
        raise ValueError(f"kernels of one target are built at a time, got {len(modules)}")
    return tvm.compile(modules[0], target=plan.primary).mod
