"""The fields of attributes: their kinds, and what a row says of each beyond its kind and default.

A kind turns what is given for a field into the value that it holds, or says what it expected. Which kinds there are is
the table :data:`KINDS`; a field is declared by a kind's name, with ``| None`` where it may be left open.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any as AnyValue
from typing import TypeAlias

import tvm

from ..ir.expr import Constant
from ..ir.types import Any as AnyDim
from ..ir.types import Dim
from ..ir.virtual_device import VirtualDevice

__all__ = [
    "REQUIRED",
    "AttrField",
    "Bool",
    "ConstantValue",
    "DType",
    "Declared",
    "Dim",
    "Dims",
    "Float",
    "Floats",
    "Int",
    "Ints",
    "Nested",
    "Placement",
    "Str",
    "field",
]

# The kinds that a field may be declared with, as a type checker sees them.
Int: TypeAlias = int
Bool: TypeAlias = bool
Float: TypeAlias = float
Str: TypeAlias = str
DType: TypeAlias = str
Ints: TypeAlias = Sequence[int]
Floats: TypeAlias = Sequence[float]
Dims: TypeAlias = Sequence[Dim]
ConstantValue: TypeAlias = Constant | None  # any other expression becomes None
Placement: TypeAlias = VirtualDevice  # a device or its name becomes one
Nested: TypeAlias = AnyValue  # sequences of numbers to any depth, such as pad_width

REQUIRED = inspect.Parameter.empty


class _AsField:
    """Stands for "as the attribute's default" among the defaults of builders."""

    def __repr__(self) -> str:
        return "as the attribute"


AS_FIELD: AnyValue = _AsField()


def _int(value: AnyValue) -> int:
    if isinstance(value, tvm.tirx.IntImm):
        return int(value.value)
    if isinstance(value, float | str) or not hasattr(value, "__index__"):
        raise TypeError("an integer")
    return int(value)


def _bool(value: AnyValue) -> bool:
    if isinstance(value, bool | int | tvm.tirx.IntImm) or type(value).__name__ == "bool":
        return bool(_int(value)) if not isinstance(value, bool) else value
    raise TypeError("a boolean")


def _float(value: AnyValue) -> float:
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError("a number")
    return float(value)


def _str(value: AnyValue) -> str:
    if not isinstance(value, str):
        raise TypeError("a string")
    return str(value)


def _dtype(value: AnyValue) -> str:
    if value is None:
        return ""
    return str(value if isinstance(value, str) else getattr(value, "name", value))


def _dim(value: AnyValue) -> Dim:
    if isinstance(value, tvm.tirx.IntImm):
        return int(value.value)
    return value if isinstance(value, AnyDim | tvm.ir.Expr) else _int(value)


def _sequence(element: Callable[[AnyValue], AnyValue]) -> Callable[[AnyValue], list[AnyValue]]:
    def convert(value: AnyValue) -> list[AnyValue]:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            value = [value]
        try:
            return [element(v) for v in value]
        except TypeError as error:
            raise TypeError(f"a sequence, each element {error}") from None

    return convert


def _constant(value: AnyValue) -> Constant | None:
    # An attribute that repeated a variable of the program would go stale as soon as a pass replaces the variable.
    return value if isinstance(value, Constant) else None


def _placement(value: AnyValue) -> VirtualDevice:
    if isinstance(value, VirtualDevice):
        return value
    if not isinstance(value, str | tvm.runtime.Device):
        raise TypeError("a device, its name or a VirtualDevice")
    return VirtualDevice.of(value)


def _nested(value: AnyValue) -> AnyValue:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value if isinstance(value, float | AnyDim | tvm.ir.Expr | str) else _int(value)
    return [_nested(v) for v in value]


@dataclass(frozen=True)
class Kind:
    """A kind of fields: what turns a value into one of it, and how the documentation calls it."""

    convert: Callable[[AnyValue], AnyValue]
    text: str


KINDS = {
    "Int": Kind(_int, "int"),
    "Bool": Kind(_bool, "bool"),
    "ConstantValue": Kind(_constant, "Constant"),
    "Float": Kind(_float, "float"),
    "Str": Kind(_str, "str"),
    "DType": Kind(_dtype, "data type"),
    "Dim": Kind(_dim, "dimension"),
    "Ints": Kind(_sequence(_int), "sequence of int"),
    "Floats": Kind(_sequence(_float), "sequence of float"),
    "Dims": Kind(_sequence(_dim), "sequence of dimensions"),
    "Nested": Kind(_nested, "nested sequences of int"),
    "Placement": Kind(_placement, "device"),
}


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
