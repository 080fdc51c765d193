"""The nodes of a model in the places of Relay's nodes: which of the model's an expression was made of.

Off by default, because it costs a walk a node. :func:`fill` turns it on and off, and so does the option of the
``PassContext`` that TVM had for it (:func:`filled_where_asked`). Calls of convolutions and pools have their place
always (:func:`at_node`).

>>> fill(True), fill(False)
(False, True)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

from tvm.ir import SourceName, Span

from ...relay.ir import Expr, placed
from ...relay.ir.spans import with_span
from ...relay.pass_options import FILL_SPAN, relay_option
from .check import node_name
from .context import Context
from .typing import typed

__all__ = ["at_node", "fill", "filled_where_asked", "place", "span_of"]

E = TypeVar("E", bound=Expr)

_fills: ContextVar[bool] = ContextVar("fills", default=False)


def fill(is_on: bool) -> bool:
    """Say whether models that are converted from now on in this thread give nodes a place; return what held before."""
    before = _fills.get()
    _fills.set(is_on)
    return before


@contextmanager
def filled_where_asked() -> Iterator[None]:
    """Give nodes a place inside if :func:`fill` or ``relay.frontend.fill_span`` of the ``PassContext`` asks for it."""
    token = _fills.set(_fills.get() or relay_option(FILL_SPAN, False))
    try:
        yield
    finally:
        _fills.reset(token)


def place(name: str, made: Sequence[E | None], of: Collection[Expr | None] = ()) -> list[E | None]:
    """Return what was made of other expressions, with the name of a model's node as its place if that is asked for."""
    if not _fills.get():
        return list(made)
    at = Span(SourceName(name), 0, 0, 0, 0)
    given = {each for each in of if each is not None}
    return cast("list[E | None]", placed(made, at, given))


def at_node(ctx: Context, made: Expr) -> Expr:
    """Return a call with the node as its place, which is what the checks of the run name: whether asked for or not.

    For calls that fail at sizes which a user may well try, such as a window that is larger than the image.
    """
    return with_span(typed(made), Span(SourceName(node_name(ctx.node)), 0, 0, 0, 0))


def span_of(name: str) -> Span | None:
    """Return the place that a name is, if places are asked for."""
    return Span(SourceName(name), 0, 0, 0, 0) if _fills.get() else None
