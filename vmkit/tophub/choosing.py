"""Which records are in force, and which decisions a kernel takes from them."""

from __future__ import annotations

import contextlib
import contextvars
from collections import Counter
from collections.abc import Iterable, Iterator

import tvm
from tvm import s_tir
from tvm.target import Target

from ..schedule.rule import CHOSEN, D, Rule
from .classes import target_class
from .records import Records
from .workload import workload_of

__all__ = ["KINDS", "choose", "entered", "in_force", "tally"]

KINDS = ("tuned", "generalised", "default")
"""How a kernel's decisions were found: measured for it, measured for one that is like it, or the rule's own."""

_entered: contextvars.ContextVar[Records | None] = contextvars.ContextVar("records", default=None)


def in_force() -> Records:
    """Return the records that have been entered, the innermost first."""
    return _entered.get() or Records()


@contextlib.contextmanager
def entered(records: Records, *, below: bool = False) -> Iterator[Records]:
    """Put records into force, before those that are, or after them."""
    token = _entered.set(in_force() + records if below else records + in_force())
    try:
        yield in_force()
    finally:
        _entered.reset(token)


def choose(sch: s_tir.Schedule, rule: Rule[D], target: Target, default: D) -> Iterable[tuple[str, D]]:
    """Return the decisions for a kernel: those of its record or of the nearest legal one, and the default ones."""
    records = in_force()
    if len(records):
        workload, of_class = workload_of(sch, rule), target_class(target)
        exact = records.exact(workload, of_class)
        found = [("tuned", exact)] if exact is not None else []
        found += [("generalised", record) for record in records.near(workload, of_class) if record is not exact]
        legal: list[D] | None = None  # there may be thousands
        for how, record in found:
            if how == "generalised" and record.seconds >= record.default_seconds:
                break  # the default was the best there, which is another one here
            decisions = rule.from_json(record.decisions)
            legal = list(rule.candidates(sch, target)) if legal is None else legal
            if decisions in legal:
                yield how, decisions
                break
    yield "default", default


def tally(mod: tvm.IRModule) -> dict[str, int]:
    """Return how many kernels of a scheduled module took their decisions from where, by :data:`KINDS`."""
    counts = Counter(str(f.attrs[CHOSEN]) for f in mod.functions.values() if f.attrs and CHOSEN in f.attrs)
    return {kind: counts[kind] for kind in KINDS}
