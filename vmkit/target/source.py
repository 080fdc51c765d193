"""Where a target was written, so that an error can point at the words that are wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from vmkit.errors import TargetError

from .._dataclasses import dataclass

__all__ = ["Problem", "Source"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the option it concerns (``kind`` for the target as a whole) and what to say."""

    option: str
    text: str


@dataclass(frozen=True)
class Source:
    """The text a target was given as, and the span of each option in it; spans are empty for a dict."""

    text: str
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def error(self, problems: Sequence[Problem]) -> TargetError:
        """Return one error that lists `problems`, with carets under the words at fault."""
        lines = [f"target {self.text!r} cannot be used"]
        lines += [f"  {problem.option}: {problem.text}" for problem in problems]
        marks = [" "] * len(self.text)
        for problem in problems:
            start, end = self.spans.get(problem.option, (0, 0))
            marks[start:end] = "^" * (end - start)
        if "^" in marks:
            lines += [f"    {self.text}", f"    {''.join(marks).rstrip()}"]
        return TargetError("\n".join(lines))
