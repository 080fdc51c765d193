"""Values that are handed on, so that who has one does not keep it while others work on what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Handed"]

T = TypeVar("T")


class Handed(Generic[T]):
    """A value for whoever takes it.

    A module that is an argument lives until the call returns. Through this it ends, with its weights, as soon as the
    first pass has made another of it.

    Examples
    --------
    >>> value = Handed([1, 2])
    >>> value.become(sorted)
    >>> value.take()
    [1, 2]
    """

    def __init__(self, value: T) -> None:
        self.value = value

    def become(self, change: Callable[[T], T]) -> None:
        """Put what `change` makes of the value in its place."""
        self.value = change(self.value)

    def take(self) -> T:
        """Return the value, which is not held here any more."""
        value = self.value
        del self.value
        return value
