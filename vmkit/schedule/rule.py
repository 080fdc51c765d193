"""What a schedule rule is: the decisions it takes for a kernel, those it could take, and the schedule that follows.

A rule's decisions are one frozen dataclass of ints, bools and strings, so that tuning records hold them as JSON. The
default ones come from the kernel's sizes and the target; a tuner measures the candidates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from tvm import s_tir
from tvm.target import Target

from .._dataclasses import dataclass

if TYPE_CHECKING:
    from tvm import tirx

__all__ = ["BY_RULE", "CHOSEN", "AnyDecisions", "Choose", "D", "Options", "Rule", "Versions", "choices", "defaults"]


class AnyDecisions(Protocol):
    """Decisions of a rule: a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


D = TypeVar("D", bound=AnyDecisions)
Versions = tuple["tirx.Expr", Sequence[tuple[int, D]]]
"""A size, an expression over a kernel's parameters, and the least ones that decisions are for, in falling order."""

Options = Mapping[str, Sequence[Any]]  # by the field of decisions


@dataclass(frozen=True)
class Rule(Generic[D]):
    """A schedule rule. None of its functions but `apply` changes the schedule that it is given.

    Attributes
    ----------
    name : str
        What records are filed under.
    decisions : type
        The frozen dataclass of its decisions.
    decide : callable
        Takes the schedule of a kernel and the target; returns the default decisions, None where the rule does not
        apply.
    candidates : callable
        Takes the same of a kernel that the rule applies to; returns the decisions that are legal and may be better,
        the default ones among them.
    apply : callable
        Takes the same and decisions that are among the candidates, and schedules the kernel; returns the schedule of
        one that had to be written anew for that, None otherwise.
    versions : callable, optional
        Takes the same; for a kernel that is scheduled several times, because a size that is known at run time only
        chooses among decisions, returns the :data:`Versions`, of which the first has the decisions given. None for
        other kernels.
    spare_versions : callable, optional
        The same for kernels that one version would do for, more slowly at some sizes; made where code may be long.
    largest : callable, optional
        Takes a kernel that has versions, and the target; returns the least size for which it is better written in
        another way than the rule's, and the kernel written so. None for other kernels.
    """

    name: str
    decisions: type[D]
    decide: Callable[[s_tir.Schedule, Target], D | None]
    candidates: Callable[[s_tir.Schedule, Target], Iterable[D]]
    apply: Callable[[s_tir.Schedule, Target, D], s_tir.Schedule | None]
    versions: Callable[[s_tir.Schedule, Target, D], Versions[D] | None] | None = None
    spare_versions: Callable[[s_tir.Schedule, Target, D], Versions[D] | None] | None = None
    largest: Callable[[s_tir.Schedule, Target], tuple[int, tirx.PrimFunc] | None] | None = None

    def to_json(self, decisions: D) -> dict[str, Any]:
        """Return decisions as a JSON object."""
        return asdict(decisions)

    def from_json(self, data: Mapping[str, Any]) -> D | None:
        """Return the decisions of a JSON object; None where it has not exactly their fields, with their types.

        Fields with a default may lack: records from before there was such a choice.
        """
        defaults = {f.name: f.default for f in fields(self.decisions) if f.default is not MISSING}
        whole = {**defaults, **data}
        if {name: type(value) for name, value in whole.items()} != self.to_json_types():
            return None
        return self.decisions(**whole)

    def to_json_types(self) -> dict[str, type]:
        """Return the type of each decision by name."""
        names = {"int": int, "bool": bool, "str": str}
        return {f.name: names[str(f.type)] for f in fields(self.decisions)}


def choices(decisions: Callable[..., D], default: D, options: Options) -> Iterator[D]:
    """Yield the default decisions and then, once each, those with every combination of some fields' options."""
    yield default
    base = asdict(default)
    for values in itertools.product(*options.values()):
        made = decisions(**{**base, **dict(zip(options, values, strict=True))})
        if made != default:
            yield made


BY_RULE = "vmkit.by_rule"  # the attribute of kernels that rules for processors have scheduled
CHOSEN = "vmkit.decisions"  # the attribute of a scheduled kernel that says how its decisions were found

Choose = Callable[[s_tir.Schedule, Rule[Any], Target, Any], Iterable[tuple[str, Any]]]
"""Takes a kernel, its rule, the target and the default decisions; returns what to schedule with, the best first.

Beside each decisions stands how they were found, such as ``default``.
"""


def defaults(sch: s_tir.Schedule, rule: Rule[D], target: Target, default: D) -> Iterable[tuple[str, D]]:
    """Choose a rule's default decisions."""
    return [("default", default)]
