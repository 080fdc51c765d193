"""When the nodes of programs end.

While a program is compiled the nodes that are made are noted, and held, and those that nobody else refers to any more
end together, after each pass. Who refers to a node is younger, so the youngest end first, while what they refer to is
still held here: a program as deep as can be ends without recursion. What is made outside lasts: the last reference to a
deep program would otherwise end it by a recursion that no stack holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import tvm_ffi
from tvm_ffi import dataclasses

from ..._tvm.node_fields import make_by_fields
from ..._tvm.node_references import hold, references_to
from ..._tvm.quick_objects import look_quickly

if TYPE_CHECKING:
    from tvm_ffi.dataclasses import py_class as py_class

__all__ = ["end_unused_nodes", "nodes_end", "parts_at_hand", "py_class"]

look_quickly()

Parts: TypeAlias = dict[int, tuple[Any, list[Any]]]
"""Expressions, each by its address, with those directly below it."""

# The nodes that were made, in their order; what is kept of expressions meanwhile.
_made: ContextVar[list[tvm_ffi.Object] | None] = ContextVar("made", default=None)
_parts: ContextVar[Parts | None] = ContextVar("parts", default=None)


@contextmanager
def nodes_end() -> Iterator[None]:
    """Note the nodes that are made inside; in the end those that nobody refers to are no more.

    Inside another such block nothing is done: what is made here ends there.
    """
    if _made.get() is not None:
        yield
        return
    made: list[tvm_ffi.Object] = []
    token, token_of_parts = _made.set(made), _parts.set({})
    try:
        yield
    finally:
        # A type that was found for a node is younger than the node, and unused once that has ended.
        while end_unused_nodes():
            pass
        _made.reset(token)
        _parts.reset(token_of_parts)
        for node in made:
            hold(node.__chandle__())


parts_at_hand = _parts.get
"""Return the expressions whose parts are known, to be added to; None while no nodes are noted."""


def end_unused_nodes() -> int:
    """End the nodes that were made in a block of :func:`nodes_end` and that nobody refers to; return how many."""
    made, parts = _made.get() or [], _parts.get() or {}
    kept = []
    before = len(made)
    while made:
        node = made.pop()
        address = node.__chandle__()
        _, below = parts.pop(address, (None, None))
        del _  # another object of Python, which holds the node as well
        if sys.getrefcount(node) > _ALONE or references_to(address) > 1:
            kept.append(node)
            if below is not None:
                parts[address] = node, below
        # What is below it is next, and is kept by nothing here.
        del node, below
    made += reversed(kept)
    return before - len(made)


def _references_of_one() -> int:
    """Return how many references Python counts to what a variable alone holds."""
    alone = object()
    return sys.getrefcount(alone)


_ALONE = _references_of_one()


def _note(node: tvm_ffi.Object) -> None:
    made = _made.get()
    if made is None:
        hold(node.__chandle__())
    else:
        made.append(node)


def _py_class(type_key: str, **options: Any) -> Callable[[type], type]:
    """Register a class of nodes as ``tvm_ffi.dataclasses.py_class`` does; the nodes are noted when they are made."""
    register = dataclasses.py_class(type_key, **options)

    def decorate(cls: type) -> type:
        made = register(cls)
        make_by_fields(made, _note)
        return made

    return decorate


if not TYPE_CHECKING:
    py_class = _py_class
