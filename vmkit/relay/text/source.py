"""A text with positions: where a character stands, spans of nodes, and errors that point at the text."""

from __future__ import annotations

from bisect import bisect_right

from tvm.ir import SourceName, Span

from ...errors import ParseError

__all__ = ["Source"]

_WIDEST_LINE = 120


class Source:
    """A text and its name.

    Parameters
    ----------
    text : str
        The text.
    name : str
        What errors and spans call it, such as a file name.
    """

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self._source_name = SourceName(name)
        self._line_starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._line_starts.append(at + 1)
            at = text.find("\n", at + 1)

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of a character, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """Return the span from one character up to, not including, another."""
        line, column = self.position(start)
        end_line, end_column = self.position(end)
        return Span(self._source_name, line, end_line, column, end_column)

    def describe(self, offset: int, reason: str) -> str:
        """Return a message that names a place, says what is wrong there, and shows the line with a caret."""
        offset = min(offset, len(self.text))
        line, column = self.position(offset)
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        shown = self.text[start : end if end >= 0 else len(self.text)].rstrip("\r").replace("\t", " ")
        caret = column - 1
        if len(shown) > _WIDEST_LINE:
            # A line of a model's text may hold thousands of characters: show what lies around the place.
            left = max(0, min(caret - _WIDEST_LINE // 2, len(shown) - _WIDEST_LINE))
            before = "..." if left else ""
            after = "..." if left + _WIDEST_LINE < len(shown) else ""
            shown = f"{before}{shown[left : left + _WIDEST_LINE]}{after}"
            caret += len(before) - left
        return f"{self.name}:{line}:{column}: {reason}\n  {shown}\n  {' ' * caret}^"

    def error(self, offset: int, reason: str) -> ParseError:
        """Return the error for one place."""
        return ParseError(self.describe(offset, reason))
