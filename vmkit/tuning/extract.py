"""The kernels of a model, as schedule rules get them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target

from .._dataclasses import dataclass
from ..compiler.stages import fused_kernels
from ..errors import CompileError, OptionError, suggest
from ..schedule.rule import Rule
from ..schedule.scheduling import scheduling
from ..tophub.workload import Workload, workload_of

__all__ = ["Kernel", "kernels_of", "sizes_of", "unknown_sizes"]

TYPICAL_SIZE = 16
"""What an unknown size is taken for where nothing else is said."""


@dataclass(frozen=True)
class Kernel:
    """A kernel to tune.

    Attributes
    ----------
    name : str
        What the compiler calls it in this model.
    function : tirx.PrimFunc
        Its loops, not scheduled.
    rule : Rule
        The first rule that applies.
    workload : Workload
        What its record is filed under.
    """

    name: str
    function: tirx.PrimFunc
    rule: Rule[Any]
    workload: Workload


def kernels_of(model: Any, target: Target, params: Mapping[str, Any] | None = None) -> list[Kernel]:
    """Return the different kernels of a model for a target for which there is more than one way to schedule them."""
    found: dict[Workload, Kernel] = {}
    module = fused_kernels(model, target, params)
    for variable, function in sorted(module.functions.items(), key=lambda item: item[0].name_hint):
        if not isinstance(function, tirx.PrimFunc) or function.attrs.get("tirx.is_scheduled", False):
            continue
        if function.attrs.get("tirx.is_host_func", False):
            continue
        kernel = _kernel(variable.name_hint, function, target)
        if kernel is not None:
            found.setdefault(kernel.workload, kernel)
    return list(found.values())


def _kernel(name: str, function: tirx.PrimFunc, target: Target) -> Kernel | None:
    how = scheduling(target)
    schedule = how.prepared(function)
    if schedule is None:
        return None
    for rule in how.rules:
        default = rule.decide(schedule, target)
        if default is None:
            continue
        try:
            how.scheduled(schedule, rule, target, default)
        except (s_tir.ScheduleError, CompileError):
            continue
        is_open = any(candidate != default for candidate in rule.candidates(schedule, target))
        return Kernel(name, function, rule, workload_of(schedule, rule)) if is_open else None
    return None


def unknown_sizes(function: tirx.PrimFunc) -> list[str]:
    """Return the names of the sizes of a kernel's operands that are known at run time only."""
    found: dict[str, None] = {}

    def note(size: tvm.ir.Var) -> None:
        found.setdefault(size.name)

    for param in function.params:
        for size in getattr(param.ty, "shape", (param,)):
            tvm_ffi.structural_walk(size, (tvm.ir.Var, note))
    return list(found)


def sizes_of(kernels: list[Kernel], given: Mapping[str, int]) -> dict[str, int]:
    """Return a size for every unknown one of some kernels, by name.

    Raises
    ------
    OptionError
        If a size is given for a name that no kernel has, or is no positive number.
    """
    names = list(dict.fromkeys(name for kernel in kernels for name in unknown_sizes(kernel.function)))
    for name, size in given.items():
        if name not in names:
            raise OptionError(f"sizes: no kernel has an unknown size {name!r}{suggest(name, names)}")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise OptionError(f"sizes: {name} is {size!r}, expected a positive int")
    return {name: given.get(name, TYPICAL_SIZE) for name in names}
