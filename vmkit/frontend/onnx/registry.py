"""The registry of converters: a function for every operator and every version that changed its meaning.

>>> @converter("Example", since=7, domain="doc.example")
... def example(ctx, data, *, alpha=1.0):
...     return data
>>> find("doc.example", "Example", 13).since
7
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["Converter", "converter", "default_domain", "find", "versions"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Converter:
    """One converter: what it is for, and the function.

    The function takes the context, the node's inputs (None for one left out) and the node's attributes by name, and
    returns the node's output, or a sequence of them.
    """

    domain: str
    op_type: str
    since: int
    function: Callable[..., Any]
    attributes: frozenset[str]
    max_inputs: int | None


_CONVERTERS: dict[tuple[str, str], list[Converter]] = {}


def default_domain(domain: str) -> str:
    """Return a domain in its canonical spelling: that of ONNX itself is empty."""
    return "" if domain == "ai.onnx" else domain


def converter(*op_types: str, since: int = 1, domain: str = "") -> Callable[[F], F]:
    """Register the decorated function for operators, from version `since` of their domain on."""

    def decorate(function: F) -> F:
        attributes, most = _signature(function)
        for op_type in op_types:
            entries = _CONVERTERS.setdefault((domain, op_type), [])
            if any(e.since == since for e in entries):
                raise ValueError(f"{op_type} since {since} is registered twice")
            entries.append(Converter(domain, op_type, since, function, attributes, most))
            entries.sort(key=lambda e: e.since)
        return function

    return decorate


def _signature(function: Callable[..., Any]) -> tuple[frozenset[str], int | None]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    attributes = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return attributes, None
    return attributes, sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def find(domain: str, op_type: str, version: int) -> Converter | None:
    """Return the newest converter that is not newer than `version`."""
    entries = _CONVERTERS.get((default_domain(domain), op_type), ())
    fitting = [e for e in entries if e.since <= version]
    return fitting[-1] if fitting else None


def versions() -> Iterator[Converter]:
    """Yield every registered converter."""
    for entries in _CONVERTERS.values():
        yield from entries
