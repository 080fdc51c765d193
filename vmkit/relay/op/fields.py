"""The fields of attributes: what a row says of each, and what follows for a number of spatial axes.

A field is declared by its kind's name (see :mod:`.kinds`), with ``| None`` where it may be left open, and its default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any as AnyValue

from ..._dataclasses import dataclass
from .kinds import KINDS

__all__ = ["AS_FIELD", "REQUIRED", "AttrField", "Declared", "field"]

REQUIRED = inspect.Parameter.empty


class _AsField:
    """Stands for "as the attribute's default" among the defaults of builders."""

    def __repr__(self) -> str:
        return "as the attribute"


AS_FIELD: AnyValue = _AsField()


@dataclass(frozen=True, eq=False)
class Declared:
    """What a row says of a field, for any number of spatial axes; see :func:`field`."""

    default: AnyValue = REQUIRED
    script: AnyValue = AS_FIELD
    of_rank: Callable[[AnyValue, int], AnyValue] | None = None
    spread: Callable[[AnyValue, int], AnyValue] | None = None
    doc: str = ""
    first: bool = False

    def at(self, name: str, declaration: str, rank: int) -> AttrField:
        """Return the field over `rank` spatial axes."""

        def of_rank(value: AnyValue) -> AnyValue:
            is_open = value is REQUIRED or value is AS_FIELD or value is None
            return value if is_open or self.of_rank is None else self.of_rank(value, rank)

        default, script = of_rank(self.default), of_rank(self.script)
        spread = None if self.spread is None else partial(_over, self.spread, rank)
        return AttrField(name, declaration, default, script, spread, self.doc)


def _over(spread: Callable[[AnyValue, int], AnyValue], rank: int, value: AnyValue) -> AnyValue:
    return spread(value, rank)


def field(
    default: AnyValue = REQUIRED,
    *,
    script: AnyValue = AS_FIELD,
    of_rank: Callable[[AnyValue, int], AnyValue] | None = None,
    spread: Callable[[AnyValue, int], AnyValue] | None = None,
    doc: str = "",
    first: bool = False,
) -> AnyValue:
    """Return what stands behind a field's kind in a row where its default alone does not say it all.

    Parameters
    ----------
    default : value
        What the attribute is in texts and files that leave it out; none where it has to be given.
    script : value
        The default of the builder's parameter where Relay's Python function had another than Relay's node;
        :data:`REQUIRED` where it had none.
    of_rank : callable, optional
        ``of_rank(default, rank)`` is the default over so many spatial axes.
    spread : callable, optional
        ``spread(value, rank)`` is what a builder makes of a value given for all axes at once.
    doc : str
        What the field says, for the documentation.
    first : bool
        Whether it stands before the fields of the row that its own derives from.
    """
    return Declared(default, script, of_rank, spread, doc, first)


class AttrField:
    """One attribute: its name, kind, whether None is allowed, its default, and its parameter in builders.

    Attributes
    ----------
    name, kind : str
        The name, and that of its kind.
    optional : bool
        Whether it may be None.
    default : value
        What it is where none is given; REQUIRED where one must be.
    script : value
        The default of the parameter in builders.
    spread : callable or None
        What a builder makes of a given value.
    doc : str
        What it says.
    """

    __slots__ = ("convert", "default", "doc", "kind", "name", "optional", "script", "spread")

    def __init__(
        self,
        name: str,
        declaration: str,
        default: AnyValue,
        script: AnyValue = AS_FIELD,
        spread: Callable[[AnyValue], AnyValue] | None = None,
        doc: str = "",
    ) -> None:
        self.name = name
        self.kind = declaration.removesuffix("| None").strip()
        self.optional = declaration.endswith("| None")
        self.convert = KINDS[self.kind].convert
        self.default = default
        self.script = default if script is AS_FIELD else script
        self.spread = spread
        self.doc = doc

    @property
    def is_required(self) -> bool:
        """Whether a value has to be given."""
        return self.default is REQUIRED

    def text(self, default: AnyValue = AS_FIELD) -> str:
        """Return the lines that say of it what numpydoc does of a parameter, for a default of its own if there is."""
        default = self.default if default is AS_FIELD else default
        kind = KINDS[self.kind].text
        if self.spread is not None:
            kind = f"{kind.removeprefix('sequence of ').removesuffix('s')} or {kind}"
        if default is None:
            kind += ", optional"
        elif default is not REQUIRED:
            kind += f", default {default!r}"
        return f"{self.name} : {kind}" + (f"\n    {self.doc}" if self.doc else "")
