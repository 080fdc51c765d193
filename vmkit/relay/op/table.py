"""The operators that are registered, as a table for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..._dataclasses import dataclass
from .attrs import AttrField
from .registry import REGISTRY, OpEntry

__all__ = ["Attribute", "OperatorRow", "as_json", "as_text", "operator_row", "operator_rows"]


@dataclass(frozen=True)
class Attribute:
    """An attribute of an operator; `default` is its value where none is given."""

    name: str
    kind: str
    required: bool
    default: Any


@dataclass(frozen=True)
class OperatorRow:
    """What the table says of one operator.

    Attributes
    ----------
    name, summary : str
        Relay's name, and the first sentence of what it computes.
    level : int
        Relay's support level.
    inputs : list of str
        The names of the inputs; one that starts with ``*`` stands for any number.
    attributes : list of Attribute
        In the order in which they are printed.
    shapes : str
        "dynamic" where dimensions may be unknown until the program runs, else "static".
    """

    name: str
    level: int
    inputs: list[str]
    attributes: list[Attribute]
    shapes: str
    summary: str


def operator_rows() -> list[OperatorRow]:
    """Return a row for each registered operator, by name."""
    return [operator_row(REGISTRY[name]) for name in sorted(REGISTRY)]


def operator_row(made: OpEntry) -> OperatorRow:
    """Return the row of one operator."""
    fields = made.attrs.declared if made.attrs is not None else ()
    return OperatorRow(
        name=made.name,
        level=made.level,
        inputs=list(made.inputs),
        attributes=[_attribute(field) for field in fields],
        shapes="dynamic" if made.is_dynamic else "static",
        summary=made.doc.partition("\n\n")[0].replace("\n", " "),
    )


def _attribute(field: AttrField) -> Attribute:
    default = None if field.is_required or field.default is None else field.convert(field.default)
    return Attribute(field.name, field.kind, field.is_required, default)


def as_json(rows: Sequence[OperatorRow]) -> str:
    """Return rows as a JSON list of objects."""
    return json.dumps([asdict(row) for row in rows], indent=2)


def as_text(rows: Sequence[OperatorRow]) -> str:
    """Return rows as aligned columns under a heading."""
    table = [("operator", "level", "shapes", "inputs", "attributes")]
    table += [
        (row.name, str(row.level), row.shapes, ", ".join(row.inputs), ", ".join(_text(a) for a in row.attributes))
        for row in rows
    ]
    widths = [max(len(line[column]) for line in table) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(line, widths, strict=False)), line[4]]).rstrip() for line in table
    )


def _text(attribute: Attribute) -> str:
    return attribute.name if attribute.required else f"{attribute.name}={attribute.default!r}"
