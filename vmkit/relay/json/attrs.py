"""Operator attributes in TVM's JSON: which fields stand in the node itself, and which refer to nodes of their own.

A field whose C++ type was a plain number, ``std::string`` or ``DataType`` is written in place; one whose type was an
object (``Integer``, ``String``, ``IndexExpr``, arrays) holds the index of a node. Python's declarations do not tell
``int`` from ``Integer``, so the fields of scalar kind that were objects are listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...errors import ModelError, suggest
from ..op.attrs import ATTRS_CLASSES, AttrField, Attrs
from .kinds import Node, fields_of, refuse_missing_operators
from .slots import DTYPE, Item, int64
from .unknown_fields import refuse_unknown

if TYPE_CHECKING:
    from .reader import NodeReader

__all__ = ["FIELDS_OF_OPERATORS", "REPEATED_INPUTS", "AttrsKind", "is_reference", "write_attrs"]

_PREFIX = "relay.attrs."
_PLAIN_KINDS = frozenset(["Bool", "DType", "Float", "Int", "Str"])
_OBJECT_NUMBERS: dict[str, tuple[str, ...]] = {
    "DFTAttrs": ("inverse",),
    "GatherAttrs": ("axis",),
    "GatherNDAttrs": ("batch_dims", "index_rank"),
    "MultinomialAttrs": ("num_samples",),
    "RepeatAttrs": ("repeats", "axis"),
    "ReshapeLikeAttrs": ("lhs_end", "rhs_end"),
    "ReverseAttrs": ("axis",),
    "ReverseSequenceAttrs": ("seq_axis", "batch_axis"),
    "ScanopAttrs": ("axis", "exclusive"),
    "ScatterElementsAttrs": ("axis",),
    "StackAttrs": ("axis",),
    "TakeAttrs": ("batch_dims", "axis"),
    "TopkAttrs": ("k",),
    "YoloReorgAttrs": ("stride",),
}
# Numbers that were plain before a release.
_PLAIN_BEFORE: dict[tuple[str, str], tuple[int, int]] = {("TopkAttrs", "k"): (0, 7)}
# Lists of which every element is a float, whatever number stands here.
_FLOAT_LISTS = frozenset({"roi"})
# Attributes that held an input of their call once more; vmkit keeps such a one only where it is a constant.
REPEATED_INPUTS: dict[str, tuple[str, ...]] = {"relay.attrs.ArangeAttrs": ("start", "stop", "step")}
# Operators whose attributes shared a name with others, and the fields that theirs had.
FIELDS_OF_OPERATORS: dict[str, tuple[str, ...]] = {
    "qnn.simulated_quantize": ("axis",),
    "relay.op.annotation.simulated_quantize": ("kind", "sign", "rounding"),
}
# Strings are told apart when they are read: the index of a string node is an object. To write one, it must be known.
_OBJECT_STRINGS: dict[str, tuple[str, ...]] = {
    "AdaptivePool1DAttrs": ("out_layout",),
    "AdaptivePool2DAttrs": ("out_layout",),
    "AdaptivePool3DAttrs": ("out_layout",),
    "AvgPool1DAttrs": ("out_layout",),
    "AvgPool2DAttrs": ("layout", "out_layout"),
    "AvgPool3DAttrs": ("out_layout",),
    "Conv1DAttrs": ("data_layout", "kernel_layout", "out_layout"),
    "Conv2DAttrs": ("data_layout", "kernel_layout", "out_layout"),
    "Conv2DWinogradAttrs": ("data_layout", "kernel_layout", "out_layout"),
    "Conv3DAttrs": ("data_layout", "kernel_layout", "out_layout"),
    "Conv3DTransposeAttrs": ("data_layout", "kernel_layout", "out_layout"),
    "CorrelationAttrs": ("layout",),
    "DensePackAttrs": ("weight_layout",),
    "EinsumAttrs": ("equation",),
    "GlobalPool2DAttrs": ("layout", "out_layout"),
    "GridSampleAttrs": ("method", "layout", "padding_mode"),
    "MaxPool1DAttrs": ("out_layout",),
    "MaxPool2DAttrs": ("layout", "out_layout"),
    "MaxPool3DAttrs": ("out_layout",),
    "PadAttrs": ("pad_mode",),
    "ScatterElementsAttrs": ("reduction",),
    "ScatterNDAttrs": ("mode",),
    "StridedSliceAttrs": ("slice_mode",),
    "TakeAttrs": ("mode",),
    "UpSamplingAttrs": ("layout", "method"),
}


def is_reference(cls: type[Attrs], name: str) -> bool:
    """Say whether TVM 0.14 kept an attribute as a node of its own."""
    field = next(f for f in cls.declared if f.name == name)
    return _is_object_number(cls.type_key, field) or name in _OBJECT_STRINGS.get(cls.type_key.removeprefix(_PREFIX), ())


def _is_object_number(type_key: str, field: AttrField) -> bool:
    listed = _OBJECT_NUMBERS.get(type_key.removeprefix(_PREFIX), ())
    if field.kind not in _PLAIN_KINDS or field.name in listed:
        return True
    return field.optional and field.kind not in ("Str", "DType")


class AttrsKind:
    """How nodes of operator attributes are read."""

    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        if node["type_key"] not in ATTRS_CLASSES:
            refuse_missing_operators(reader)
        cls = _class(node["type_key"])
        given = fields_of(node)
        return [
            given[field.name]
            for field in cls.declared
            if field.name in given and _is_reference(cls, field, given[field.name], reader)
        ]

    def make(self, node: Node, reader: NodeReader) -> Attrs:
        cls = _class(node["type_key"])
        given = fields_of(node)
        refuse_unknown(cls.type_key, given, {field.name for field in cls.declared}, reader)
        return cls(**{f.name: _value(cls, f, given[f.name], reader) for f in cls.declared if f.name in given})


def _class(type_key: str) -> type[Attrs]:
    if type_key not in ATTRS_CLASSES:
        raise ModelError(f"there are no attributes {type_key!r}{suggest(type_key, ATTRS_CLASSES)}")
    return ATTRS_CLASSES[type_key]


def _is_reference(cls: type[Attrs], field: AttrField, text: str, reader: NodeReader) -> bool:
    if field.kind == "Str":
        if not text.isdecimal():
            return False
        return (field.optional and text == "0") or reader.referred(text).get("type_key") == "runtime.String"
    before = _PLAIN_BEFORE.get((cls.type_key.removeprefix(_PREFIX), field.name))
    if before is not None and reader.is_older_than(*before):
        return False
    return _is_object_number(cls.type_key, field)


def _value(cls: type[Attrs], field: AttrField, text: str, reader: NodeReader) -> Item:
    try:
        if _is_reference(cls, field, text, reader):
            value = reader.made(text)
            _require_flat(value)
            return value
        return _plain(field, text)
    except ModelError as error:
        raise ModelError(f"field {field.name!r} {error}") from None


def _require_flat(value: Item) -> None:
    """Refuse lists nested deeper than pairs: a graph of lists may stand for more than any memory holds."""
    for part in value if isinstance(value, list) else ():
        if isinstance(part, list) and any(isinstance(p, list) for p in part):
            raise ModelError("holds lists nested more than two deep")


def _plain(field: AttrField, text: str) -> Item:
    match field.kind:
        case "Int":
            return int64(text)
        case "Bool":
            return bool(int64(text))
        case "Float":
            return float(text)
        case "DType" if text:
            return DTYPE.parse(text)
    return text


def write_attrs(
    attrs: Attrs, index: Callable[[Any], int], inputs: Sequence[Any] = (), operator: str = ""
) -> dict[str, str]:
    """Return the fields of an attributes node.

    Parameters
    ----------
    attrs : Attrs
        The attributes.
    index : callable
        Gives the index of another object's node.
    inputs : sequence of Expr
        The arguments of the call, for attributes that repeat them.
    operator : str
        What is called, for attributes of a name that operators shared.
    """
    key = type(attrs).type_key
    repeated = dict(zip(REPEATED_INPUTS.get(key, ()), inputs, strict=False))
    names = FIELDS_OF_OPERATORS.get(operator)
    fields: dict[str, str] = {}
    for field in attrs.declared:
        if names is not None and field.name not in names:
            continue
        value = getattr(attrs, field.name)
        if value is None:
            value = repeated.get(field.name)
        if field.kind not in _PLAIN_KINDS and hasattr(value, "__len__"):
            value = _as_lists(value, field.name in _FLOAT_LISTS)
        if is_reference(type(attrs), field.name):
            fields[field.name] = str(index(value))
        elif field.kind == "Bool":
            fields[field.name] = str(int(value))
        elif field.kind == "Float":
            fields[field.name] = format(value, ".17g")
        else:
            fields[field.name] = "" if value is None else str(value)
    return dict(sorted(fields.items()))


def _as_lists(value: Item, is_float: bool) -> Item:
    """Return nested arrays of the FFI as lists."""
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return float(value) if is_float and isinstance(value, int) else value
    return [_as_lists(v, is_float) for v in cast("Sequence[Item]", value)]
