"""Nodes that older releases wrote, as TVM 0.14 would have written them.

Each row says what a release up to 0.13 called something, and what it is called since. What a row is about never stands
in a later document, so rows apply by what is found, not by version. Reading on from here, the rest of this package
knows 0.14 alone. Fields that a later release added need no row: they take their defaults.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm

from ...errors import ModelError
from ...values.dltensor import write_dltensor

if TYPE_CHECKING:
    from .reader import NodeReader

__all__ = ["upgraded"]

Node = Mapping[str, Any]
Fields = dict[str, str]

# 0.7 moved what is not of one dialect out of "relay.", and put the expressions of tensors under "tir.".
_KINDS_BEFORE_0_7: dict[str, str] = {
    "relay.FuncType": "FuncType",
    "relay.GlobalTypeVar": "GlobalTypeVar",
    "relay.GlobalVar": "GlobalVar",
    "relay.IncompleteType": "IncompleteType",
    "relay.Module": "IRModule",
    "relay.Op": "Op",
    "relay.TupleType": "TupleType",
    "relay.TypeCall": "TypeCall",
    "relay.TypeVar": "TypeVar",
    "relay.Span": "Span",
    "StrMap": "Map",
    "StringImm": "tir.StringImm",
    "UIntImm": "IntImm",
    "Variable": "tir.Var",
}
_KINDS_BEFORE_0_7 |= {
    name: f"tir.{name}"
    for name in (
        *("Add", "And", "Any", "Call", "Cast", "Div", "EQ", "FloorDiv", "FloorMod", "GE", "GT", "LE", "LT"),
        *("Max", "Min", "Mod", "Mul", "NE", "Or", "Select", "SizeVar", "Sub"),
    )
}

_OPERATORS: dict[str, str] = {
    "_contrib_reverse_reshape": "contrib_reverse_reshape",  # 0.7
    "contrib.adaptive_avg_pool2d": "nn.adaptive_avg_pool2d",  # 0.7
    "contrib.adaptive_max_pool2d": "nn.adaptive_max_pool2d",  # 0.7
    "contrib.ndarray_size": "ndarray_size",  # 0.7
    "image.resize": "image.resize2d",  # 0.8
    "scatter": "scatter_elements",  # 0.11
    "scatter_add": "scatter_elements",  # 0.11
}

_ATTRIBUTE_KINDS: dict[str, str] = {
    "relay.attrs.CumsumAttrs": "relay.attrs.ScanopAttrs",  # 0.8
    "relay.attrs.Resize3dAttrs": "relay.attrs.Resize3DAttrs",  # 0.8
    "relay.attrs.ResizeAttrs": "relay.attrs.Resize2DAttrs",  # 0.8
    "relay.attrs.ScatterAddAttrs": "relay.attrs.ScatterElementsAttrs",  # 0.11
    "relay.attrs.ScatterAttrs": "relay.attrs.ScatterElementsAttrs",  # 0.11
}


def upgraded(node: Node, reader: NodeReader) -> Node:
    """Return a node as TVM 0.14 would have written it; the same one where nothing differs.

    Nodes that it needs are added to those of the reader.
    """
    key = node.get("type_key")
    if not isinstance(key, str):
        return node
    if key == "relay.Call":
        return _call(node, reader)
    if key.startswith("relay.attrs."):
        return _attributes(node, key)
    renamed = _KINDS_BEFORE_0_7.get(key)
    if renamed is not None:
        node = {**node, "type_key": renamed}
    if "global_key" in node:
        node = {**node, "repr_str": node["global_key"]}
    if node["type_key"] == "Op" and node.get("repr_str") in _OPERATORS:
        return {**node, "repr_str": _OPERATORS[node["repr_str"]]}
    fields = node.get("attrs")
    if isinstance(fields, dict) and node["type_key"] in _FIELDS:
        return {**node, "attrs": _FIELDS[node["type_key"]](fields, reader)}
    return node


def _type_variable(fields: Fields, reader: NodeReader) -> Fields:
    """Return the fields of a type variable: before 0.7 it held a variable, and that the name."""
    if "var" not in fields:
        return fields
    name = reader.referred(fields["var"])["attrs"]["name"]
    return {"name_hint": name, "kind": fields["kind"]}


def _span(fields: Fields, reader: NodeReader) -> Fields:
    """Return the fields of a span: before 0.7 it was one place."""
    if "lineno" not in fields:
        return fields
    line, column = fields["lineno"], fields["col_offset"]
    return {"source_name": fields["source"], "line": line, "end_line": line, "column": column, "end_column": column}


_FIELDS: dict[str, Callable[[Fields, NodeReader], Fields]] = {
    "GlobalTypeVar": _type_variable,
    "Span": _span,
    "TypeVar": _type_variable,
}


def _attributes(node: Node, key: str) -> Node:
    fields = node.get("attrs")
    if not isinstance(fields, dict):
        return node
    if key in ("relay.attrs.ResizeAttrs", "relay.attrs.Resize3dAttrs"):
        fields = _resize(fields)
    return {**node, "type_key": _ATTRIBUTE_KINDS.get(key, key), "attrs": fields}


_METHODS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
_RESIZE_FIELDS = {"bicubic_alpha": "cubic_alpha", "bicubic_exclude": "cubic_exclude"}


def _resize(fields: Fields) -> Fields:
    made = {_RESIZE_FIELDS.get(name, name): text for name, text in fields.items()}
    made["method"] = _METHODS.get(made.get("method", "linear").lower(), made.get("method", "linear").lower())
    # None said: to the nearest where corners are aligned, else down.
    made.setdefault("rounding_method", "")
    if "align_corners" in made:
        aligned = made.pop("align_corners") != "0"
        made["coordinate_transformation_mode"] = "align_corners" if aligned else "asymmetric"
    return made


class _CallDraft:
    """A call while it is brought up to date: its arguments and attributes can be replaced."""

    def __init__(self, fields: Fields, attrs: Node, arguments: list[Any], reader: NodeReader) -> None:
        self.fields = fields
        self.attrs = attrs
        self.arguments = arguments
        self._reader = reader

    @property
    def attributes(self) -> Fields:
        """The fields of the attributes as they were written."""
        found = self.attrs.get("attrs", {})
        if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
            raise ModelError("its attributes are malformed")
        return dict(found)

    def set_attributes(self, key: str, values: Fields) -> None:
        """Give the call attributes of its own."""
        self.fields["attrs"] = self._reader.add({"type_key": key, "attrs": values})

    def append_constant(self, value: Any, dtype: str) -> None:
        """Give the call one more argument, a scalar."""
        tensor = tvm.runtime.tensor(np.array(value, dtype))
        data = self._reader.add_tensor(base64.b64encode(write_dltensor(tensor)).decode("ascii"))
        self.arguments.append(int(self._reader.add({"type_key": "relay.Constant", "attrs": {"data": data}})))
        self.fields["args"] = self._reader.add({"type_key": "Array", "data": self.arguments})

    def integer(self, text: str, default: int) -> int:
        """Return the integer that a field refers to; the default for the null."""
        node = self._reader.referred(text)
        return int(node["attrs"]["value"]) if node.get("type_key") == "IntImm" else default

    def string(self, text: str) -> str:
        """Return the index of a string."""
        return self._reader.add({"type_key": "runtime.String", "repr_str": text})


def _batch_matmul(call: _CallDraft) -> None:
    """Say what 0.8 made attributes: the second operand came transposed."""
    given = call.attributes
    if "transpose_b" not in given:
        values = {"out_dtype": given.get("out_dtype", ""), "transpose_a": "0", "transpose_b": "1"}
        call.set_attributes("relay.attrs.BatchMatmulAttrs", values)


def _pad(call: _CallDraft) -> None:
    """Turn the attribute pad_value, before 0.8, into an argument."""
    given = call.attributes
    if "pad_value" in given:
        call.append_constant(float(given.pop("pad_value")), "float32")
        call.set_attributes("relay.attrs.PadAttrs", given)


def _arg_reduce(call: _CallDraft) -> None:
    """Give argmax and argmin attributes of their own, as 0.8 did; before, the first index was selected."""
    if call.attrs.get("type_key") == "relay.attrs.ReduceAttrs":
        call.set_attributes("relay.attrs.ArgReduceAttrs", {**call.attributes, "select_last_index": "0"})


def _scatter(reduction: str) -> Callable[[_CallDraft], None]:
    """Say what the name of the operator said before 0.11."""

    def upgrade(call: _CallDraft) -> None:
        values = {**call.attributes, "reduction": call.string(reduction)}
        call.set_attributes("relay.attrs.ScatterElementsAttrs", values)

    return upgrade


def _get_valid_counts(call: _CallDraft) -> None:
    """Turn the attribute score_threshold, before 0.8, into an argument."""
    if len(call.arguments) == 1:
        given = call.attributes
        call.append_constant(float(given["score_threshold"]), "float32")
        call.set_attributes("relay.attrs.GetValidCountsAttrs", {**given, "score_threshold": "0"})


def _non_max_suppression(call: _CallDraft) -> None:
    """Turn the attributes max_output_size and iou_threshold, before 0.8, into arguments."""
    given = call.attributes
    if "iou_threshold" not in given:
        return
    if len(call.arguments) == 2:
        raise ModelError("calls vision.non_max_suppression without indices, as only TVM 0.6 did")
    most = given.pop("max_output_size", "0")
    if len(call.arguments) == 3:
        call.append_constant(call.integer(most, -1), "int32")
    call.append_constant(float(given.pop("iou_threshold")), "float32")
    call.set_attributes("relay.attrs.NonMaximumSuppressionAttrs", given)


# By the name that the operator had then.
_CALLS: dict[str, Callable[[_CallDraft], None]] = {
    "argmax": _arg_reduce,
    "argmin": _arg_reduce,
    "nn.batch_matmul": _batch_matmul,
    "nn.pad": _pad,
    "scatter": _scatter("update"),
    "scatter_add": _scatter("add"),
    "vision.get_valid_counts": _get_valid_counts,
    "vision.non_max_suppression": _non_max_suppression,
}


def _call(node: Node, reader: NodeReader) -> Node:
    fields = node.get("attrs")
    if not isinstance(fields, dict) or "op" not in fields:
        return node
    op = reader.referred(fields["op"])
    if op.get("type_key") not in ("Op", "relay.Op"):
        return node
    upgrade = _CALLS.get(str(op.get("repr_str", op.get("global_key"))))
    if upgrade is None:
        return node
    arguments = reader.referred(fields.get("args", "0")).get("data", [])
    if not isinstance(arguments, list):
        raise ModelError("its arguments are no list")
    made = dict(fields)
    upgrade(_CallDraft(made, reader.referred(fields.get("attrs", "0")), list(arguments), reader))
    return {**node, "attrs": made}
