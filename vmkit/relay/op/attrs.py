"""Attributes of operators: a declaration of named, typed fields with defaults becomes a node of TVM's IR.

>>> @attrs_node("example.attrs.ScaleAttrs")
... class ScaleAttrs(Attrs):
...     factor: Int
...     dtype: DType = ""
>>> ScaleAttrs(factor=2).factor
2
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import ClassVar, TypeVar

import tvm
from tvm_ffi.dataclasses import py_class

from ...errors import TypeCheckError, suggest
from ..ir.expr import Constant
from ..ir.types import Any as AnyDim
from ..ir.virtual_device import VirtualDevice

__all__ = [
    "ATTRS_CLASSES",
    "Attrs",
    "Bool",
    "ConstantValue",
    "DType",
    "Dim",
    "Dims",
    "Float",
    "Floats",
    "Int",
    "Ints",
    "Nested",
    "Placement",
    "Str",
    "attrs_node",
]

# The kinds that a field may be declared with; "| None" makes a field optional.
Int = int
Bool = bool
Float = float
Str = str
DType = str
Ints = Sequence[int]
Floats = Sequence[float]
Dim = AnyValue  # int, relay.Any() or a symbolic integer
Dims = Sequence[AnyValue]
ConstantValue = AnyValue  # a relay.Constant; any other expression becomes None
Placement = AnyValue  # a VirtualDevice; a device or its name becomes one
Nested = AnyValue  # nested sequences of numbers, such as pad_width

REQUIRED = inspect.Parameter.empty
ATTRS_CLASSES: dict[str, type[Attrs]] = {}
C = TypeVar("C", bound=type)


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


def _dim(value: AnyValue) -> AnyValue:
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


def _constant(value: AnyValue) -> AnyValue:
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


_CONVERTERS: dict[str, Callable[[AnyValue], AnyValue]] = {
    "Int": _int,
    "Bool": _bool,
    "ConstantValue": _constant,
    "Float": _float,
    "Str": _str,
    "DType": _dtype,
    "Dim": _dim,
    "Ints": _sequence(_int),
    "Floats": _sequence(_float),
    "Dims": _sequence(_dim),
    "Nested": _nested,
    "Placement": _placement,
}


class AttrField:
    """One declared attribute: its name, kind, whether None is allowed, and its default."""

    __slots__ = ("convert", "default", "kind", "name", "optional")

    def __init__(self, name: str, declaration: str, default: AnyValue) -> None:
        self.name = name
        self.kind = declaration.removesuffix("| None").strip()
        self.optional = declaration.endswith("| None")
        self.convert = _CONVERTERS[self.kind]
        self.default = default

    @property
    def is_required(self) -> bool:
        """Whether a value has to be given."""
        return self.default is REQUIRED


@py_class("relay.Attrs")
class Attrs(tvm.ir.Node):
    """Base of operator attributes. Fields convert what they are given, and say what they expected when they cannot."""

    type_key: ClassVar[str] = "relay.Attrs"
    declared: ClassVar[tuple[AttrField, ...]] = ()


def attrs_node(type_key: str) -> Callable[[C], C]:
    """Turn a class of annotated fields into an attributes node registered under `type_key`."""

    def decorate(cls: C) -> C:
        declared = tuple(
            AttrField(name, declaration, cls.__dict__.get(name, REQUIRED))
            for name, declaration in cls.__annotations__.items()
        )
        by_name = {field.name: field for field in declared}

        def __init__(self: AnyValue, **values: AnyValue) -> None:
            unknown = [name for name in values if name not in by_name]
            if unknown:
                hint = suggest(unknown[0], by_name) or f"; attributes: {', '.join(by_name) or 'none'}"
                raise TypeCheckError(f"{type_key} has no attribute {unknown[0]!r}{hint}")
            self.__ffi_init__(**{f.name: _converted(type_key, f, values.get(f.name, f.default)) for f in declared})

        for name in by_name:
            if name in cls.__dict__:
                delattr(cls, name)
        cls.__annotations__ = {name: AnyValue for name in by_name}
        cls.__init__ = __init__  # type: ignore[misc]
        cls.type_key = type_key  # type: ignore[attr-defined]
        cls.declared = declared  # type: ignore[attr-defined]
        made = py_class(type_key, init=False)(cls)
        ATTRS_CLASSES[type_key] = made
        return made

    return decorate


def _converted(type_key: str, field: AttrField, value: AnyValue) -> AnyValue:
    if value is REQUIRED:
        raise TypeCheckError(f"{type_key} needs a value for {field.name!r}")
    if value is None and field.optional:
        return None
    try:
        return field.convert(value)
    except (TypeError, ValueError) as error:
        raise TypeCheckError(f"{type_key}: {field.name!r} must be {error}, not {value!r}") from None


@attrs_node("attrs.TestAttrs")
class TestAttrs(Attrs):
    """Attributes for calls of functions, of which TVM had these alone, for its tests."""

    axis: Int = 10
    name: Str = ""
    padding: Ints = (0, 0)
