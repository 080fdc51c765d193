"""A place in the tokens of a text: look ahead, take, expect, and say what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from tvm.ir import Span

from ...errors import ParseError
from .lexer import Token, describe_token, tokenize
from .source import Source

__all__ = ["Cursor"]

T = TypeVar("T")

# Nodes this deep are still freed and visited safely; a text nested deeper is no program.
_DEEPEST = 20_000


class Cursor:
    """The base of the parsers: the tokens of a source and the position reached."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self.at = 0
        self.problems: list[str] = []
        self._depth = 0

    @property
    def next(self) -> Token:
        """The token that comes next."""
        return self.tokens[self.at]

    def ahead(self, count: int) -> Token:
        """Return the token `count` places after the next one; the end when there are fewer."""
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Return the next token and move past it."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def accept(self, kind: str) -> bool:
        """Move past the next token if it is of a kind; say whether it was."""
        if self.tokens[self.at].kind != kind:
            return False
        self.take()
        return True

    def expect(self, kind: str, what: str | None = None) -> Token:
        """Return the next token, which must be of a kind."""
        token = self.tokens[self.at]
        if token.kind != kind:
            self.fail(token, f"expected {what or repr(kind)}, found {describe_token(token)}")
        return self.take()

    def arrow(self) -> None:
        """Move past ``->``."""
        self.expect("-", "'->'")
        self.expect(">", "'->'")

    def sequence(self, open_: str, close: str, element: Callable[[], T]) -> list[T]:
        """Return the elements between brackets, separated by commas; a last comma is allowed."""
        self.expect(open_)
        found: list[T] = []
        while self.next.kind != close:
            found.append(element())
            if not self.accept(","):
                break
        self.expect(close, f"',' or '{close}'")
        return found

    # -- positions and errors

    def span_from(self, start: int) -> Span:
        """Return the span from a character to the end of the token taken last."""
        return self.source.span(start, max(start, self.tokens[self.at - 1].end if self.at else start))

    def fail(self, where: Token | int, reason: str) -> NoReturn:
        """Raise the error of a place, after all that was noted before it."""
        offset = where if isinstance(where, int) else where.start
        raise ParseError.of([*self.problems, self.source.describe(offset, reason)])

    def note(self, where: Token | int, reason: str) -> None:
        """Note an error that parsing can go on after."""
        self.problems.append(self.source.describe(where if isinstance(where, int) else where.start, reason))

    def raise_noted(self) -> None:
        """Raise the errors noted, if there are any."""
        if self.problems:
            raise ParseError.of(self.problems)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Count a level of nesting."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(self.next, f"the text is nested more than {_DEEPEST} levels deep")
        yield
        self._depth -= 1
