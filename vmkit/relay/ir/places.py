"""Where expressions come from, while passes change them: the places of what each was made of.

A place is a node of a model, by its name, or a line of a text. It is kept in a node's span; a pass that makes a new
node need not give it one. While places are kept (:func:`keeping`), ``rewrite`` notes for the nodes that a pass makes
the places of those that they stand for. Off by default: it costs a walk over what is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tvm.ir import SequentialSpan, Span

__all__ = ["Noted", "joined", "keeping", "noted", "place_text", "places_in"]

Noted = dict[Any, "Span | SequentialSpan | None"]
"""By node, the places that have been noted for it and that its span has not."""

_noted: ContextVar[Noted | None] = ContextVar("noted", default=None)


@contextmanager
def keeping(is_on: bool) -> Iterator[Noted | None]:
    """Keep places inside, if that is wanted, and give what is noted there; None if it is not."""
    token = _noted.set({} if is_on else None)
    try:
        yield _noted.get()
    finally:
        _noted.reset(token)


def noted() -> Noted | None:
    """Return what has been noted, or None where places are not kept."""
    return _noted.get()


def places_in(span: Span | SequentialSpan | None) -> list[Span]:
    """Return the places in a span, which may be several."""
    if span is None:
        return []
    return [place for each in span.spans for place in places_in(each)] if isinstance(span, SequentialSpan) else [span]


def place_text(place: Span) -> str:
    """Return a place for people to read: the name of a model's node, or file and line of a text.

    >>> from tvm.ir import SourceName
    >>> place_text(Span(SourceName("conv1"), 0, 0, 0, 0)), place_text(Span(SourceName("a.relay"), 3, 3, 1, 9))
    ('conv1', 'a.relay:3')
    """
    name = str(place.source_name.name)
    return f"{name}:{place.line}" if place.line else name


def joined(spans: Iterable[Span | SequentialSpan | None]) -> Span | SequentialSpan | None:
    """Return one span with all places of several, each once, in their order; None where there are none."""
    found = {place_text(place): place for span in spans for place in places_in(span)}
    places = list(found.values())
    return SequentialSpan(places) if len(places) > 1 else places[0] if places else None
