"""Attributes of operators: a row of named, typed fields with defaults becomes a node of TVM's IR.

>>> @attrs_node("example.attrs.ScaleAttrs")
... class ScaleAttrs(Attrs):
...     factor: Int
...     dtype: DType = ""
>>> ScaleAttrs(factor=2).factor
2

A row whose defaults follow from a number of spatial axes makes one node for each, and another row may derive from one:

>>> @attrs_node("example.attrs.Shift{rank}DAttrs", ranks=(1, 2))
... class ShiftAttrs(Attrs):
...     by: Ints = field(0, of_rank=lambda value, rank: (value,) * rank)
>>> list(ShiftAttrs.over(2)().by)
[0, 0]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import ClassVar, TypeVar

import tvm

from ...errors import TypeCheckError, suggest
from ..ir.lifetime import py_class
from .fields import REQUIRED, AttrField, Declared, field
from .kinds import Bool, ConstantValue, Dim, Dims, DType, Float, Floats, Int, Ints, Nested, Placement, Str

__all__ = [
    "ATTRS_CLASSES",
    "AttrField",
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
    "attrs_row",
    "cleaned",
    "field",
]

ATTRS_CLASSES: dict[str, type[Attrs]] = {}
A = TypeVar("A", bound="Attrs")
C = TypeVar("C", bound=type)


@py_class("relay.Attrs")
class Attrs(tvm.ir.Node):
    """Base of operator attributes. Fields convert what they are given, and say what they expected when they cannot."""

    type_key: ClassVar[str] = "relay.Attrs"
    declared: ClassVar[tuple[AttrField, ...]] = ()
    """The fields in their order, which texts and files keep."""
    rank: ClassVar[int] = 0
    """The number of spatial axes that the defaults are for; 0 where they follow from none."""
    row: ClassVar[dict[str, tuple[str, Declared]]] = {}
    by_rank: ClassVar[Mapping[int, type[AnyValue]]] = {}

    @classmethod
    def over(cls: type[A], rank: int) -> type[A]:
        """Return the node that this row makes for a number of spatial axes."""
        return cls.by_rank[rank]

    @classmethod
    def default(cls, name: str) -> AnyValue:
        """Return the default of an attribute."""
        return next(f.default for f in cls.declared if f.name == name)


def attrs_row(cls: C) -> C:
    """Take the fields of a class as a row that rows of nodes derive from."""
    inherited: dict[str, tuple[str, Declared]] = cls.row  # type: ignore[attr-defined]
    own: dict[str, tuple[str, Declared]] = {}
    for name, declaration in inspect.get_annotations(cls).items():
        said = cls.__dict__.get(name, REQUIRED)
        own[name] = (declaration, said if isinstance(said, Declared) else Declared(said))
        if name in cls.__dict__:
            delattr(cls, name)
    ahead = {name: row for name, row in own.items() if row[1].first and name not in inherited}
    cls.row = {**ahead, **inherited, **own}  # type: ignore[attr-defined]
    # TVM takes the fields of a class by these: a row has none of its own.
    cls.__annotations__ = {}
    return cls


def attrs_node(type_key: str, ranks: Sequence[int] = ()) -> Callable[[C], C]:
    """Make a row of fields the attributes node registered under `type_key`, and document it.

    Parameters
    ----------
    type_key : str
        Relay's name of the node.
    ranks : sequence of int
        The numbers of spatial axes to make a node for each of, whose key and documentation have it at ``{rank}``. The
        class itself is then what these have in common, and :meth:`Attrs.over` gives one of them.
    """

    def decorate(cls: C) -> C:
        row = attrs_row(cls)
        if not ranks:
            return _node(row, type_key, 0)
        made = {}
        for rank in ranks:
            key = type_key.format(rank=rank)
            doc = (cls.__doc__ or "").format(rank=rank)
            members = {"__doc__": doc, "__module__": cls.__module__, "by_rank": {}}
            made[rank] = _node(type(key.rpartition(".")[-1], (row,), members), key, rank)
        cls.by_rank = made  # type: ignore[attr-defined]
        return row

    return decorate


def _node(cls: C, type_key: str, rank: int) -> C:
    """Return a class that has a row, registered as a node."""
    rows: Mapping[str, tuple[str, Declared]] = cls.row  # type: ignore[attr-defined]
    declared = tuple(said.at(name, declaration, rank) for name, (declaration, said) in rows.items())
    by_name = {field.name: field for field in declared}

    def __init__(self: AnyValue, **values: AnyValue) -> None:
        unknown = [name for name in values if name not in by_name]
        if unknown:
            hint = suggest(unknown[0], by_name) or f"; attributes: {', '.join(by_name) or 'none'}"
            raise TypeCheckError(f"{type_key} has no attribute {unknown[0]!r}{hint}")
        self.__ffi_init__(**{f.name: _converted(type_key, f, values.get(f.name, f.default)) for f in declared})

    if any(f.kind in ("Float", "Floats") for f in declared):
        cls.__s_equal__ = _equal_by_field  # type: ignore[attr-defined]
    cls.__annotations__ = {name: AnyValue for name in by_name}
    cls.__doc__ = _Documentation(cls.__doc__ or "", declared)  # type: ignore[assignment]
    cls.__init__ = __init__  # type: ignore[misc]
    cls.type_key = type_key  # type: ignore[attr-defined]
    cls.declared = declared  # type: ignore[attr-defined]
    cls.rank = rank  # type: ignore[attr-defined]
    made = py_class(type_key, init=False)(cls)
    ATTRS_CLASSES[type_key] = made
    return made


# Below this Relay took two floats to be equal; one that was read from a text may differ in its last digit.
_SAME_FLOAT = 1e-9


def _equal_by_field(self: Attrs, other: Attrs, equal: Callable[[AnyValue, AnyValue, int, str], bool]) -> bool:
    """Compare attributes with floats among them: what structural equality asks TVM's nodes for."""

    def is_same(name: str) -> bool:
        a, b = getattr(self, name), getattr(other, name)
        return _is_near(a, b) or bool(equal(a, b, 0, name))

    return all(is_same(f.name) for f in self.declared)


def _is_near(a: AnyValue, b: AnyValue) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) < _SAME_FLOAT
    if isinstance(a, tvm.ir.Array) and isinstance(b, tvm.ir.Array):
        return len(a) == len(b) and all(map(_is_near, a, b))
    return False


class _Documentation:
    """The documentation of a node, with a section on its fields; Python asks for it as for any attribute of a class."""

    def __init__(self, doc: str, declared: Sequence[AttrField]) -> None:
        self._doc, self._declared = doc, declared

    def __get__(self, instance: Attrs | None, owner: type[Attrs]) -> str:
        doc = cleaned(self._doc)
        if not self._declared or "Attributes\n---" in doc:
            return doc
        return "\n".join([doc, "", "Attributes", "----------", *(f.text() for f in self._declared)])


def cleaned(doc: str) -> str:
    """Return documentation without the indentation of the source; :func:`inspect.cleandoc`, which looks at each line.

    The quotes at the end stand where all lines begin. Later Pythons take the indentation away by themselves.
    """
    indentation = doc.rpartition("\n")[2]
    return doc.replace("\n" + indentation, "\n").strip() if indentation.isspace() else inspect.cleandoc(doc)


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
