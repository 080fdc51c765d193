"""What nodes offer and only rooms above this one can do: those hand it in when they are imported.

``str`` of an expression needs the printer, and ``astype`` the builders of operators. Both import the nodes, so the
nodes do not import them: they call a hook, which ``vmkit.relay.text`` and ``vmkit.relay.op`` fill. Importing
``vmkit.relay`` imports both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from .expr import Call

__all__ = ["Hook", "build", "print_node", "print_text"]

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """A function that is called here and defined in a room above.

    Parameters
    ----------
    name : str
        What it is for.
    home : str
        The module that fills it.

    Examples
    --------
    >>> twice: Hook[[int], int] = Hook("twice a number", "numbers")
    >>> twice(2)
    Traceback (most recent call last):
    RuntimeError: twice a number: nothing does it yet; import numbers first
    >>> twice.fill(lambda number: 2 * number)
    >>> twice(2)
    4
    """

    def __init__(self, name: str, home: str) -> None:
        self.name, self.home = name, home
        self._function: Callable[P, R] | None = None

    def fill(self, function: Callable[P, R]) -> None:
        """Let a function do it."""
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call what fills the hook; RuntimeError where nothing does yet."""
        if self._function is None:
            raise RuntimeError(f"{self.name}: nothing does it yet; import {self.home} first")
        return self._function(*args, **kwargs)


print_node: Hook[[Any], str] = Hook("the text of a node", "vmkit.relay.text")
"""Returns the text of an expression without header and metadata."""

print_text: Hook[[Any, bool], str] = Hook("the text of a program", "vmkit.relay.text")
"""Returns the text of an expression with its header and, if asked for, its metadata."""

build: Hook[..., Call] = Hook("a call of an operator by its name", "vmkit.relay.op")
"""Takes the name of an operator and what its builder takes; returns the call."""
