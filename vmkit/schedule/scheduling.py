"""How kernels are scheduled for a kind of target: its rules, and what they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from .._dataclasses import dataclass
from . import cpu
from .rule import Rule

__all__ = ["Scheduling", "scheduling"]


@dataclass(frozen=True)
class Scheduling:
    """The schedule rules of a kind of target.

    Attributes
    ----------
    rules : tuple of Rule
        The most special first.
    prepared : callable
        Returns the schedule of a kernel that rules decide on; None for one that stays as it was written.
    scheduled : callable
        Takes that, a rule, the target and decisions; returns the scheduled kernel. Raises ScheduleError or
        CompileError where the rule is not for this kernel.
    """

    rules: tuple[Rule[Any], ...]
    prepared: Callable[[tirx.PrimFunc], s_tir.Schedule | None]
    scheduled: Callable[[s_tir.Schedule, Rule[Any], Target, Any], tirx.PrimFunc]

    def rule(self, name: str) -> Rule[Any]:
        """Return the rule of a name; KeyError where there is none."""
        return {rule.name: rule for rule in self.rules}[name]


_ON_CPU = Scheduling(cpu.RULES, cpu.prepared, cpu.scheduled)


def scheduling(target: Target) -> Scheduling:
    """Return how kernels are scheduled for a target."""
    return _on_gpu() if "gpu" in target.keys else _ON_CPU


@functools.cache
def _on_gpu() -> Scheduling:
    from . import gpu  # which few processes need

    return Scheduling(gpu.RULES, gpu.prepared, gpu.scheduled)
