"""When the nodes of programs end.

What tvm-ffi 0.1.14 makes to set a field of a class that Python defines takes one reference more to an object than it
gives back, so no node would ever end, nor a weight that it holds. While a program is compiled the nodes that are made
are noted, and those that nobody refers to any more give back what their fields took.

Who refers to a node is younger, so the youngest end first, while what they refer to is still held here: a program as
deep as can be ends without recursion. A node that somebody refers to stays as it is, with the references too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm_ffi import dataclasses

from ..._tvm.node_references import give_back, hold, on_construction, reference_places, references_to

if TYPE_CHECKING:
    from tvm_ffi.dataclasses import py_class as py_class

__all__ = ["end_unused_nodes", "nodes_end", "py_class"]

Places = list[tuple[int, bool]]

# The addresses of the nodes that were made, in their order, each with where its references are.
_made: ContextVar[list[tuple[int, Places]] | None] = ContextVar("made", default=None)
_defined: set[type] = set()


@contextmanager
def nodes_end() -> Iterator[None]:
    """Note the nodes that are made inside; in the end those that nobody refers to are no more.

    Inside another such block nothing is done: what is made here ends there.
    """
    if _made.get() is not None:
        yield
        return
    made: list[tuple[int, Places]] = []
    token = _made.set(made)
    try:
        yield
    finally:
        # A type that was found for a node is younger than the node, and unused once that has ended.
        while end_unused_nodes():
            pass
        _made.reset(token)
        for node, _ in made:
            give_back(node)


def end_unused_nodes() -> int:
    """End the nodes that were made in a block of :func:`nodes_end` and that nobody refers to; return how many."""
    made = _made.get() or []
    kept = []
    before = len(made)
    while made:
        node, places = made.pop()
        if references_to(node) > 1:
            kept.append((node, places))
            continue
        for place in places:
            give_back(node, place)
        give_back(node)
    made += reversed(kept)
    return before - len(made)


def _py_class(type_key: str, **options: Any) -> Callable[[type], type]:
    """Register a class of nodes as ``tvm_ffi.dataclasses.py_class`` does; the nodes are noted when they are made."""
    register = dataclasses.py_class(type_key, **options)

    def decorate(cls: type) -> type:
        made = register(cls)
        _defined.add(made)
        places: Places = []
        is_known = False  # fields are registered when the first node is made

        def note(node: tvm_ffi.Object) -> None:
            nonlocal is_known
            noted = _made.get()
            if noted is None:
                return
            if not is_known:
                places.extend(place for kind in made.__mro__ if kind in _defined for place in reference_places(kind))
                is_known = True
            address = node.__chandle__()
            hold(address)
            noted.append((address, places))

        on_construction(made, note)
        return made

    return decorate


def _setters_keep_references() -> bool:
    """Say whether this tvm-ffi has the fault: releases of one number may differ in it."""
    probe: Any = dataclasses.py_class("vmkit.Probe")(
        type("Probe", (tvm_ffi.Object,), {"__annotations__": {"held": Any}})
    )
    held = tvm_ffi.convert([0])
    before = references_to(held.__chandle__())
    probe(held)  # which ends here
    return references_to(held.__chandle__()) > before


if not TYPE_CHECKING:
    py_class = _py_class if _setters_keep_references() else dataclasses.py_class
