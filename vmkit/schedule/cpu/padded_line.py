"""Lines of a padded copy, in vectors: what is copied, and what lies before and behind it.

As one loop that tests each element for the padding, LLVM makes vectors of most of a line and tests the others, which
take as long as all vectors of a short line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from tvm import s_tir, tirx

from ..._dataclasses import dataclass
from ..._tvm.nodes import is_choice
from ...kernels.builder import Size, T, either, integer, loop
from ..expressions import conjuncts, known, replaced, uses

__all__ = ["PaddedLine", "padded_line_of"]

_WRITTEN_OUT = 8  # vectors of a line that are written out


@dataclass(frozen=True)
class PaddedLine:
    """A line of a stage that pads.

    Attributes
    ----------
    size, first, end : int
        How many elements it has, and where those that are copied begin and end.
    lanes : int
        How many of these go together.
    var : tirx.Var
        The place in the line.
    tests : sequence of expression
        What holds of lines that are copied; others are padding.
    value, padding : expression
        What is copied to a place, and what is written elsewhere.
    """

    size: int
    first: int
    end: int
    lanes: int
    var: tirx.Var
    tests: Sequence[tirx.Expr]
    value: tirx.Expr
    padding: tirx.Expr

    def emit(self, made: tirx.Buffer, begin: tirx.Expr, values: Mapping[tirx.Var, Size]) -> None:
        """Write what makes the line that begins somewhere in a buffer, at some values of the other variables."""

        def pad(first: int, end: int) -> None:
            with loop(integer(end - first)) as at:
                T.buffer_store(made, self.padding, [begin + (first + at)])

        def copy() -> None:
            pad(0, self.first)
            self._vectors(made, begin, self.first, self.end, dict(values))
            pad(self.end, self.size)

        def skip() -> None:
            self._vectors(made, begin, 0, self.size, None)

        tests = [replaced(test, values) for test in self.tests]
        if tests:
            either(reduce(tirx.And, tests), copy, skip)
        else:
            copy()

    def _vectors(
        self, made: tirx.Buffer, begin: tirx.Expr, first: int, end: int, values: dict[tirx.Var, Size] | None
    ) -> None:
        """Write a part of the line in vectors, of which the last may write some elements again."""

        def store(number: Size) -> None:
            start = tirx.Min(integer(0) + number * self.lanes, integer(end - first - self.lanes)) + first
            with T.vectorized(integer(self.lanes)) as lane:
                place = start + lane
                value = self.padding if values is None else replaced(self.value, values | {self.var: place})
                T.buffer_store(made, value, [begin + place])

        count = -(-(end - first) // self.lanes)
        if count <= _WRITTEN_OUT:
            for number in range(count):
                store(number)
        else:
            with loop(integer(count)) as counted:
                store(counted)


def padded_line_of(stage: s_tir.SBlock, lanes: int) -> PaddedLine | None:
    """Return how a stage pads lines of known size; None of any other, and of one that copies less than 2."""
    value, last = stage.body.value, stage.iter_vars[-1]
    size = known(last.dom.extent)
    if size is None or not is_choice(value) or any(uses(value.args[2], v.var) for v in stage.iter_vars):
        return None
    first, end, others = 0, size, list[tirx.Expr]()
    for test in conjuncts(value.args[0]):
        match test:
            case tirx.LE() if test.b.same_as(last.var) and known(test.a) is not None:
                first = max(first, int(known(test.a) or 0))
            case tirx.LT() if test.a.same_as(last.var) and known(test.b) is not None:
                end = min(end, int(known(test.b) or 0))
            case _ if uses(test, last.var):
                return None
            case _:
                others.append(test)
    while lanes > end - first:
        lanes //= 2
    return PaddedLine(size, first, end, lanes, last.var, others, value.args[1], value.args[2]) if lanes > 1 else None
