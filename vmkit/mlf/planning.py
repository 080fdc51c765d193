"""Where in the workspace each memory is: those that are needed at different times share bytes.

A memory is needed from the first instruction that touches it to the last. Memories that are needed at one time lie
apart; to have few bytes in all is a packing problem, which is NP-hard. Several orders are tried, each memory being put
into the lowest gap that it fits, and changed at random as long as more bytes are used than are needed at one time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from .._dataclasses import dataclass
from .kernels import Kernel
from .program import Branch, Call, Copy, Foreign, Instruction, Kind, Loop, Memory, Program, plain_tensors

__all__ = ["Plan", "Span", "memory_spans", "plan_workspace"]

_TRIES = 400
"""Orders that are tried at random."""
_WORK = 400_000
"""Comparisons of memories that this may take."""


@dataclass(frozen=True, eq=False)
class Span:
    """A memory and the first and last step at which it is needed."""

    memory: Memory
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """The workspace of a program.

    Attributes
    ----------
    offsets : mapping of Memory to int
        The first byte of each memory that is in the workspace.
    size : int
        The bytes of the workspace.
    live : int
        The most bytes that are needed at one time.
    """

    offsets: Mapping[Memory, int]
    size: int
    live: int


def plan_workspace(program: Program, kernels: Mapping[str, Kernel], alignment: int = 1) -> Plan:
    """Return the workspace of a program.

    Parameters
    ----------
    alignment : int
        What places are multiples of at least; in any case of the size of an element.
    """
    spans = memory_spans(program, kernels)
    live = _most_live(spans)
    steps = {span: max(span.memory.alignment, alignment) for span in spans}
    best, size = _best(spans, steps, live)
    return Plan({span.memory: offset for span, offset in best.items()}, size, live)


class _Steps:
    """Numbers the steps of a program, and notes at which of them each memory is touched."""

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self.kernels = kernels
        self.step = 0
        self.touched: dict[Memory, list[int]] = {}

    def touch(self, memory: Memory, *steps: int) -> None:
        home = memory.home
        if home.kind is Kind.WORKSPACE:
            known = self.touched.setdefault(home, [steps[0], steps[0]])
            known[:] = [min(known[0], *steps), max(known[1], *steps)]

    def sequence(self, body: Sequence[Instruction]) -> None:
        for each in body:
            self.instruction(each)

    def instruction(self, each: Instruction) -> None:
        start = self.step
        match each:
            case Call():
                kernel = self.kernels[each.kernel]
                self.step += kernel.steps
                for tensor in each.args:
                    self.touch(tensor.memory, start, self.step - 1)
                for memory, (first, last) in zip(each.workspace, kernel.spans, strict=True):
                    self.touch(memory, start + first, start + last)
            case Copy() | Foreign():
                self.step += 1
                for tensor in plain_tensors(each):
                    self.touch(tensor.memory, start)
            case Branch():
                self.touch(each.condition.memory, start)
                self.step += 1
                self.sequence(each.then)
                self.sequence(each.otherwise)
            case Loop():
                self.loop(each)

    def loop(self, loop: Loop) -> None:
        start = self.step
        inside = _Steps(self.kernels)
        inside.step = start
        inside.sequence(loop.body)
        self.step = inside.step + 1
        for memory, (first, last) in inside.touched.items():
            # What was there before the loop is needed again in its next turn.
            self.touch(memory, first, self.step - 1 if memory in self.touched else last)


def memory_spans(program: Program, kernels: Mapping[str, Kernel]) -> list[Span]:
    """Return when each memory of the workspace is needed."""
    steps = _Steps(kernels)
    steps.sequence(program.body)
    return [Span(memory, first, last) for memory, (first, last) in steps.touched.items() if memory.size]


def _most_live(spans: Sequence[Span]) -> int:
    """Return the most bytes that are needed at one step."""
    changes: dict[int, int] = {}
    for span in spans:
        changes[span.first] = changes.get(span.first, 0) + span.memory.size
        changes[span.last + 1] = changes.get(span.last + 1, 0) - span.memory.size
    most = live = 0
    for step in sorted(changes):
        live += changes[step]
        most = max(most, live)
    return most


def _best(spans: list[Span], steps: Mapping[Span, int], live: int) -> tuple[dict[Span, int], int]:
    """Return the best places that are found, and the end of the last."""
    orders = [
        sorted(spans, key=lambda s: (-s.memory.size, s.first)),
        sorted(spans, key=lambda s: (-s.memory.size * (s.last - s.first + 1), s.first)),
        sorted(spans, key=lambda s: (-(s.last - s.first), -s.memory.size)),
        sorted(spans, key=lambda s: (s.first, -s.memory.size)),
    ]
    placed = [(_placed(order, steps), order) for order in orders]
    (best, size), order = min(placed, key=lambda one: one[0][1])
    chance = random.Random(0)
    tries = min(_TRIES, _WORK // (len(spans) ** 2 + 1))
    for _ in range(tries):
        if size <= live or len(spans) < 2:
            break
        a, b = chance.sample(range(len(spans)), 2)
        changed = list(order)
        changed[a], changed[b] = changed[b], changed[a]
        other, other_size = _placed(changed, steps)
        if other_size <= size:
            best, size, order = other, other_size, changed
    return best, size


def _placed(order: Sequence[Span], steps: Mapping[Span, int]) -> tuple[dict[Span, int], int]:
    """Return places of memories, each put into the lowest gap between those before it, and the end of the last."""
    places: dict[Span, int] = {}
    end = 0
    for span in order:
        beside = sorted((at, at + other.memory.size) for other, at in places.items() if _meet(span, other))
        at = 0
        for first, last in beside:
            if at + span.memory.size <= first:
                break
            at = max(at, -(-last // steps[span]) * steps[span])
        places[span] = at
        end = max(end, at + span.memory.size)
    return places, end


def _meet(a: Span, b: Span) -> bool:
    return a.first <= b.last and b.first <= a.last
