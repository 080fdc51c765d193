"""Nodes of which all inputs are known, some with symbolic integers in them, computed at import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx

from ...relay.ir import Constant, Dim, Expr, TensorType, Tuple, dims, is_call
from ...relay.op.constant_arrays import with_known_values
from ...values.element_types import STORED
from . import families
from .arithmetic import ELEMENTWISE, exact_division, truncated_remainder, unequal
from .attributes import Attributes
from .dtype import dtype_name
from .known import constant, known_value, sizes
from .reference import evaluate

__all__ = ["fold_constants", "fold_symbolic", "only_moves"]

# Constants are computed at import as long as that makes the program no larger than this, or than it was.
_ELEMENTS = 1 << 16
_INPUT_ELEMENTS = 1 << 26

_LIMIT = 4096  # elements of a symbolic array; a shape has a few


def fold_constants(
    node: onnx.NodeProto, version: int, inputs: Sequence[Expr | None], results: list[Expr | None]
) -> list[Expr | None]:
    """Return the outputs of a node as constants if its inputs are constants and the outputs are not too large."""
    values = [None if i is None else known_value(i) for i in inputs]
    if not values or any(v is None or v.dtype == object for v, i in zip(values, inputs, strict=True) if i is not None):
        return results
    if any(is_call(r, "nn.contrib_block_dequantize") for r in results):
        return results  # which stays of few bits until it is known what reads it
    if node.op_type in families.NOT_FOLDED or all(r is None or known_value(r) is not None for r in results):
        return results
    types = [None if r is None else r.checked_type for r in results]
    if not all(t is None or isinstance(t, TensorType) for t in types):
        return results
    size = sum(v.size for v in values if v is not None)
    wanted = [dims.product(t.shape) for t in types if t is not None]
    if size > _INPUT_ELEMENTS or not all(isinstance(w, int) and w <= max(size, _ELEMENTS) for w in wanted):
        return results
    known = _known(results)
    if known is not None:
        return known
    arrays = evaluate(node, version, values)
    if arrays is None or len(arrays) != len(results):
        return results
    return [
        constant(a) if t is not None and list(a.shape) == list(t.shape) and str(a.dtype) == t.dtype else r
        for a, t, r in zip(arrays, types, results, strict=True)
    ]


def _known(results: Sequence[Expr | None]) -> list[Expr | None] | None:
    """Return the constants of a node's outputs where numpy computes all of them from what they became.

    Most nodes over constants move elements. ONNX's reference implementation is 220 modules, which take 9 MB and, for
    each node by itself, longer.
    """
    if any(r is not None and r.checked_type.dtype in STORED for r in results):
        return None
    made, _ = with_known_values(Tuple([r for r in results if r is not None]))
    if not all(r is None or r in made or isinstance(r, Constant) for r in results):
        return None
    return [r if r is None or isinstance(r, Constant) else made[r] for r in results]


def fold_symbolic(
    node: onnx.NodeProto, version: int, values: Sequence[np.ndarray | None], dtypes: Sequence[str | None]
) -> list[Expr] | None:
    """Return the outputs of a node of the ONNX domain whose inputs are known, some of them with symbols.

    Parameters
    ----------
    values, dtypes : sequence
        The inputs and their data types; None for an input that is left out.

    Returns
    -------
    list of Expr or None
        None when the node has to be computed at run time.
    """
    if node.op_type in _MOVES:
        return None if _is_large(values) else _move(node, version, values, dtypes)
    made = None if _is_large(values) else _computed(node, version, values, dtypes)
    return None if made is None else [made]


def _is_large(values: Sequence[np.ndarray | None]) -> bool:
    return sum(v.size for v in values if v is not None) > _LIMIT


def _computed(
    node: onnx.NodeProto, version: int, values: Sequence[np.ndarray | None], dtypes: Sequence[str | None]
) -> Expr | None:
    """Return the one output of a node that does more than move elements."""
    attributes = Attributes(node)
    first = values[0]
    assert first is not None, "an operator that is folded here has its first input"
    if node.op_type == "Cast":
        return _cast(first, dtype_name(attributes["to"], "Cast"))
    if node.op_type in ELEMENTWISE:
        return _elementwise(node, values, dtypes, attributes)
    if node.op_type in _REDUCTIONS:
        return _reduction(node, values, dtypes, attributes, version)
    if node.op_type == "Range":
        return _range(values, dtypes)
    if node.op_type == "Size":
        return sizes(np.int64(first.size))
    return None


def only_moves(node: onnx.NodeProto) -> bool:
    """Say whether a node that is folded puts elements of its inputs elsewhere and computes nothing with them."""
    return node.op_type in _MOVES


def _range(values: Sequence[Any], dtypes: Sequence[str | None]) -> Expr | None:
    start, limit, delta = (v.item() for v in values)
    if not isinstance(delta, int) or delta == 0:
        return None
    count = dims.sub(limit, start) if delta == 1 else dims.ceildiv(dims.sub(limit, start), delta)
    if not isinstance(count, int) or count > _LIMIT:
        return None
    return sizes([dims.add(start, i * delta) for i in range(max(count, 0))], str(dtypes[0]))


# -- nodes that only move elements: run on their positions


_MOVES = {
    "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
    "Reshape", "Reverse", "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
# Which inputs are moved; the others steer, and must be plain numbers.
_MOVED = {"Concat": None, "ScatterElements": (0, 2), "ScatterND": (0, 2)}


def _move(node: onnx.NodeProto, version: int, values: Sequence[Any], dtypes: Sequence[str | None]) -> list[Expr] | None:
    """Let the reference implementation move positions in a pool of elements, and look the elements up afterwards."""
    moved = _MOVED.get(node.op_type, (0,))
    pool: list[Any] = []
    positions: list[np.ndarray | None] = []
    for index, value in enumerate(values):
        if value is None:
            positions.append(None)
        elif moved is None or index in moved:
            positions.append(np.arange(len(pool), len(pool) + value.size, dtype=np.int64).reshape(value.shape))
            pool += value.ravel().tolist()
        elif value.dtype == object:
            return None
        else:
            positions.append(value)
    results = evaluate(node, version, positions)
    if results is None or len(results) != len(node.output):
        return None
    return [_picked(r, pool, str(dtypes[moved[0] if moved else 0])) for r in results]


def _picked(positions: np.ndarray, pool: Sequence[Any], dtype: str) -> Expr:
    """Return the elements of a pool at positions."""
    picked = np.empty(positions.size, dtype=object)
    picked[:] = [pool[i] for i in positions.ravel().tolist()]
    return sizes(picked.reshape(positions.shape), dtype)


# -- arithmetic


_LOGICAL = {"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"}
_VARIADIC = {"Max", "Min", "Sum"}


def _elementwise(
    node: onnx.NodeProto, values: Sequence[Any], dtypes: Sequence[str | None], attributes: Any
) -> Expr | None:
    function = ELEMENTWISE[node.op_type]
    result_dtype = "bool" if node.op_type in _LOGICAL else str(dtypes[-1])
    if node.op_type == "Mod" and attributes.get("fmod", 0):
        function = truncated_remainder
    if node.op_type == "Div" and str(dtypes[0]).startswith("float"):
        function = exact_division
    if "broadcast" in attributes or "axis" in attributes:
        return None
    operands = [_integers(v) for v in values]
    if any(o is None for o in operands):
        return None
    try:
        if node.op_type in _VARIADIC:
            result = reduce(np.frompyfunc(function, 2, 1), operands)
        else:
            result = np.frompyfunc(function, len(operands), 1)(*operands)
    except ValueError:
        return None  # the shapes do not broadcast; the converter says so
    result = np.asarray(result, dtype=object)
    is_known = all(v is not None and not dims.has_too_many_choices(v) for v in result.ravel().tolist())
    return sizes(result, result_dtype) if is_known else None


def _integers(value: np.ndarray) -> np.ndarray | None:
    """Return an array as ints and expressions; None if a number in it is not whole."""
    if value.dtype == object:
        return value
    if value.dtype.kind == "f" and not (np.isfinite(value).all() and (value == np.floor(value)).all()):
        return None
    converted = np.empty(value.size, dtype=object)
    converted[:] = [int(v) for v in value.ravel().tolist()]
    return converted.reshape(value.shape)


def _cast(value: np.ndarray, dtype: str) -> Expr:
    return sizes(np.frompyfunc(lambda v: unequal(v, 0), 1, 1)(value) if dtype == "bool" else value, dtype)


_REDUCTIONS: dict[str, tuple[Callable[[Dim, Dim], Dim], Any]] = {
    "ReduceProd": (dims.mul, 1),
    "ReduceSum": (dims.add, 0),
    "ReduceMax": (dims.larger, None),
    "ReduceMin": (dims.smaller, None),
}


def _reduction(
    node: onnx.NodeProto, values: Sequence[Any], dtypes: Sequence[str | None], attributes: Any, version: int
) -> Expr | None:
    function, start = _REDUCTIONS[node.op_type]
    data = values[0]
    axes = attributes.get("axes")
    if len(values) > 1 and values[1] is not None:
        axes = [int(a) for a in values[1]]
    if not axes and attributes.get("noop_with_empty_axes", 0):
        return sizes(data, str(dtypes[0]))
    chosen = tuple(a % data.ndim for a in axes) if axes else tuple(range(data.ndim))
    if start is None and data.size == 0:
        return None
    for axis in sorted(chosen, reverse=True):
        columns = list(np.moveaxis(data, axis, 0))
        if start is not None:
            columns.append(np.full(data.shape[:axis] + data.shape[axis + 1 :], start, object))
        data = np.asarray(reduce(np.frompyfunc(function, 2, 1), columns), dtype=object)
        if attributes.get("keepdims", 1):
            data = np.expand_dims(data, axis)
    return sizes(data, str(dtypes[0]))
