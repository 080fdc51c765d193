"""The registry of converters: a function for every operator and every version that changed its meaning.

>>> @converter("Example", since=7, domain="doc.example")
... def example(ctx, data, *, alpha=1.0):
...     return data
>>> find("doc.example", "Example", 13).since
7
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from ..._dataclasses import dataclass

__all__ = ["AttributeGroup", "Converter", "converter", "default_domain", "find", "versions"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class AttributeGroup:
    """Base of what several operators take together: a field for every attribute, of its name and with its default.

    A converter that has a keyword of such a class, by its annotation, accepts the attributes of the class's fields.
    """


@dataclass(frozen=True)
class Converter:
    """One converter: what it is for, and the function.

    The function takes the context, the node's inputs (None for one left out) and the node's attributes by name, alone
    or in groups, and returns the node's output, or a sequence of them. With `named_sizes` it is given inputs whose
    sizes all have names, those that only the run knows included.
    """

    domain: str
    op_type: str
    since: int
    function: Callable[..., Any]
    attributes: frozenset[str]
    groups: Mapping[str, type[AttributeGroup]]
    max_inputs: int | None
    required: Mapping[int, str]
    named_sizes: bool = False

    def missing(self, inputs: Sequence[object | None]) -> list[str]:
        """Return the names of the inputs that a node leaves out and must not."""
        return [name for place, name in self.required.items() if place >= len(inputs) or inputs[place] is None]

    def keywords(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the function takes by name, from a node's attributes."""
        keywords = dict(given)
        for name, group in self.groups.items():
            own = [field.name for field in fields(group)]
            keywords[name] = group(**{key: keywords.pop(key) for key in own if key in keywords})
        return keywords


_CONVERTERS: dict[tuple[str, str], list[Converter]] = {}


def default_domain(domain: str) -> str:
    """Return a domain in its canonical spelling: that of ONNX itself is empty."""
    return "" if domain == "ai.onnx" else domain


def converter(
    *op_types: str, since: int = 1, domain: str = "", without: Collection[str] = (), named_sizes: bool = False
) -> Callable[[F], F]:
    """Register the decorated function for operators, from version `since` of their domain on.

    Parameters
    ----------
    *op_types : str
        The operators.
    since : int
        The first version that the function is for.
    domain : str
        The operators' domain.
    without : collection of str
        What these operators lack of the attributes in the function's groups.
    named_sizes : bool
        Whether the function computes with sizes, so that those that only the run knows need names: see
        ``named_sizes.py``. Its results are tensors, all of them.
    """

    def decorate(function: F) -> F:
        attributes, groups, most = _signature(function)
        unknown = set(without) - attributes
        if unknown:
            raise ValueError(f"{', '.join(op_types)} is without {', '.join(sorted(unknown))}, which no group has")
        for op_type in op_types:
            entries = _CONVERTERS.setdefault((domain, op_type), [])
            if any(e.since == since for e in entries):
                raise ValueError(f"{op_type} since {since} is registered twice")
            own = attributes - set(without)
            required = _required(function)
            entries.append(Converter(domain, op_type, since, function, own, groups, most, required, named_sizes))
            entries.sort(key=lambda e: e.since)
        return function

    return decorate


def _signature(function: Callable[..., Any]) -> tuple[frozenset[str], dict[str, type[AttributeGroup]], int | None]:
    """Return the attributes that a function takes, its groups of them by keyword, and how many inputs at most."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    groups = {p.name: group for p in keywords if (group := _group(function, p)) is not None}
    alone = {p.name for p in keywords} - set(groups)
    attributes = frozenset(alone.union(*([field.name for field in fields(group)] for group in groups.values())))
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return attributes, groups, None
    return attributes, groups, sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def _required(function: Callable[..., Any]) -> dict[int, str]:
    """Return the inputs that a function takes in any case, by place: those with no default whose type has no None."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {
        place: p.name
        for place, p in enumerate(parameters)
        if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty and "None" not in str(p.annotation)
    }


def _group(function: Callable[..., Any], parameter: inspect.Parameter) -> type[AttributeGroup] | None:
    """Return the class of attributes that a parameter is annotated with, if it is one."""
    annotation = parameter.annotation
    # Annotations are kept as text; a group's class is one name, which the function's module knows.
    kind = function.__globals__.get(annotation) if isinstance(annotation, str) else annotation
    return kind if isinstance(kind, type) and issubclass(kind, AttributeGroup) else None


def find(domain: str, op_type: str, version: int) -> Converter | None:
    """Return the newest converter that is not newer than `version`."""
    entries = _CONVERTERS.get((default_domain(domain), op_type), ())
    fitting = [e for e in entries if e.since <= version]
    return fitting[-1] if fitting else None


def versions() -> Iterator[Converter]:
    """Yield every registered converter."""
    for entries in _CONVERTERS.values():
        yield from entries
