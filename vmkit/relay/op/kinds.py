"""The kinds of attributes: what turns a given value into one that an attribute holds, or says what it expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import TypeAlias

import tvm

from ..._dataclasses import dataclass
from ...errors import TypeCheckError
from ..ir.dtype import dtype_name, is_vector
from ..ir.expr import Constant
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, is_symbolic
from ..ir.virtual_device import VirtualDevice

__all__ = [
    "KINDS",
    "Bool",
    "ConstantValue",
    "DType",
    "Dim",
    "Dims",
    "Float",
    "Floats",
    "Int",
    "Ints",
    "Kind",
    "Nested",
    "Placement",
    "Str",
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
    if value is None or (isinstance(value, str) and not value):
        return ""
    try:
        name = dtype_name(value)
    except TypeCheckError:
        raise TypeError("a data type") from None
    if is_vector(name):
        raise TypeError("a data type of single numbers")
    return name


def _dim(value: AnyValue) -> Dim:
    if isinstance(value, tvm.tirx.IntImm):
        return int(value.value)
    return value if is_symbolic(value) else _int(value)


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
