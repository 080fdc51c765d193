"""Rules for a GPU that have nothing to decide: they schedule a kernel as a whole or do not apply."""

from __future__ import annotations

from collections.abc import Callable

from tvm import s_tir, tirx
from tvm.s_tir import dlight
from tvm.target import Target

from ..._dataclasses import dataclass
from ..rule import Rule

__all__ = ["Fixed", "dlight_rule", "whole"]

Schedule = Callable[[tirx.PrimFunc, Target], "tirx.PrimFunc | None"]


@dataclass(frozen=True)
class Fixed:
    """No decisions."""


def whole(name: str, scheduled: Schedule) -> Rule[Fixed]:
    """Return the rule of a function that schedules a kernel, and returns None for what it is not for."""

    def decide(sch: s_tir.Schedule, target: Target) -> Fixed:
        return Fixed()  # whether it applies shows when it does

    def apply(sch: s_tir.Schedule, target: Target, decisions: Fixed) -> s_tir.Schedule | None:
        made = scheduled(sch.mod["main"], target)
        if made is None:
            raise ValueError("it is not for such kernels")
        return s_tir.Schedule(made, enable_check=False)

    return Rule(name, Fixed, decide, lambda sch, target: [Fixed()], apply)


def dlight_rule(name: str, rule: dlight.ScheduleRule) -> Rule[Fixed]:
    """Return a rule of TVM's own."""

    def scheduled(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc | None:
        schedule = rule.apply(function, target, False)
        return None if schedule is None else schedule.mod["main"]

    return whole(name, scheduled)
