"""What indices are certainly less than, and not less than 0: those that operators find on an axis, and counters.

An index that lies on its axis whatever the data are needs no look before it is used, which costs a run more than the
reading of the element.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...relay.ir import Call, Dim, Expr, TupleGetItem, is_call
from ...relay.op.pointwise import is_move
from .typing import typed

__all__ = ["index_ends"]

_INDICES = ("int32", "int64")
_SUPPRESSION = "vision.contrib_class_non_max_suppression"
_BOX = 2  # the column of the box in what a suppression finds, after those of the image and the class


def index_ends(value: Expr, known: Mapping[Expr, Dim]) -> list[Dim]:
    """Return sizes that indices are less than, each; none if they are not known to be, or to be no less than 0.

    Parameters
    ----------
    value : Expr
        The indices.
    known : mapping of Expr to Dim
        What some variables are less than.
    """
    while value not in known:
        if isinstance(value, TupleGetItem) and value.index == 1 and is_call(value.tuple_value, "topk"):
            return [_size(value.tuple_value.args[0], value.tuple_value.attrs.axis)]
        if is_call(value, "argsort"):
            return [_size(value.args[0], value.attrs.axis)]
        if is_call(value, "argmax", "argmin"):
            return [_size(value.args[0], value.attrs.axis[0])] if _is_of_one_axis(value) else []
        if is_call(value, "strided_slice") and is_call(value.args[0], _SUPPRESSION):
            boxes, scores = value.args[0].args[:2]
            return [_size(boxes, 1), _size(scores, 2)] if _takes_boxes(value) else []
        keeps = is_call(value, "cast") and all(typed(v).checked_type_.dtype in _INDICES for v in (value, value.args[0]))
        if not (keeps or is_move(value) or is_call(value, "strided_slice")):
            return []
        value = value.args[0]
    return [known[value]]


def _size(data: Expr, axis: int) -> Dim:
    dim: Dim = typed(data).checked_type_.shape[axis]
    return dim


def _is_of_one_axis(call: Call) -> bool:
    attrs = call.attrs
    return attrs.axis is not None and len(attrs.axis) == 1 and not attrs.exclude


def _takes_boxes(call: Call) -> bool:
    attrs = call.attrs
    axes, begin, end = ([int(v) for v in part or ()] for part in (attrs.axes, attrs.begin, attrs.end))
    return axes == [1] and begin == [_BOX] and end == [_BOX + 1]
