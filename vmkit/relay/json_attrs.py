"""Operator attributes in TVM's JSON: which fields stand in the node itself, and which refer to nodes of their own.

A field whose C++ type was a plain number, ``std::string`` or ``DataType`` is written in place; one whose type was an
object (``Integer``, ``String``, ``IndexExpr``, arrays) holds the index of a node. Python's declarations do not tell
``int`` from ``Integer``, so the fields of scalar kind that were objects are listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import ModelError, suggest
from .op.attrs import AttrField, Attrs
from .op.registry import attrs_classes

__all__ = ["attrs_references", "read_attrs", "write_attrs"]

Node = Mapping[str, Any]

_PREFIX = "relay.attrs."
_OBJECT_KINDS = frozenset(["Dim", "Dims", "Ints", "Nested", "Placement"])
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


def _is_object_number(type_key: str, field: AttrField) -> bool:
    listed = _OBJECT_NUMBERS.get(type_key.removeprefix(_PREFIX), ())
    if field.kind in _OBJECT_KINDS or field.name in listed:
        return True
    return field.optional and field.kind not in ("Str", "DType")


def _class(type_key: str) -> type[Attrs]:
    classes = attrs_classes()
    if type_key not in classes:
        raise ModelError(f"there are no attributes {type_key!r}{suggest(type_key, classes)}")
    return classes[type_key]


def _is_reference(cls: type[Attrs], field: AttrField, text: str, is_string: Callable[[int], bool]) -> bool:
    if field.kind == "Str":
        return text.isdecimal() and (is_string(int(text)) or (field.optional and text == "0"))
    return _is_object_number(cls.type_key, field)


def _present(node: Node, cls: type[Attrs]) -> Iterable[tuple[AttrField, str]]:
    """Yield the declared fields that a node has; older and newer releases had fewer or more."""
    values = node.get("attrs", {})
    return ((field, values[field.name]) for field in cls.declared if field.name in values)


def attrs_references(node: Node, is_string: Callable[[int], bool]) -> list[str]:
    """Return the indices of the nodes that an attributes node refers to."""
    cls = _class(node["type_key"])
    return [text for field, text in _present(node, cls) if _is_reference(cls, field, text, is_string)]


def read_attrs(node: Node, get: Callable[[str], Any], is_string: Callable[[int], bool]) -> Attrs:
    """Return the attributes of a node."""
    cls = _class(node["type_key"])
    values = {
        field.name: get(text) if _is_reference(cls, field, text, is_string) else _plain(field, text)
        for field, text in _present(node, cls)
    }
    return cls(**values)


def _plain(field: AttrField, text: str) -> Any:
    match field.kind:
        case "Int":
            return int(text)
        case "Bool":
            return bool(int(text))
        case "Float":
            return float(text)
    return text


def write_attrs(attrs: Attrs, index: Callable[[Any], int]) -> dict[str, str]:
    """Return the fields of an attributes node; `index` gives the index of another object's node."""
    key = type(attrs).type_key
    strings = _OBJECT_STRINGS.get(key.removeprefix(_PREFIX), ())
    fields: dict[str, str] = {}
    for field in attrs.declared:
        value = getattr(attrs, field.name)
        if field.kind in _OBJECT_KINDS and hasattr(value, "__len__"):
            value = _as_lists(value)
        if _is_object_number(key, field) or field.name in strings:
            fields[field.name] = str(index(value))
        elif field.kind == "Bool":
            fields[field.name] = str(int(value))
        else:
            fields[field.name] = repr(value) if field.kind == "Float" else str("" if value is None else value)
    return fields


def _as_lists(value: Any) -> Any:
    """Return nested arrays of the FFI as lists."""
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return value
    return [_as_lists(v) for v in value]
