"""Values that are known while a model is imported: numpy arrays, some with symbolic integers in them.

The arithmetic that a model does on shapes is done here, at import, so that no shape tensor is left at run time. A
constant is a numpy array; what involves a symbolic dimension is an object array of ints and expressions. Truth values
are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import ir, tirx
from tvm.sym import Analyzer

from ...relay.ir import Call, Constant, Dim, Expr, TensorType, dims
from ...relay.op import build
from .dtype import dtype_name
from .reference import Attributes, evaluate

__all__ = ["constant", "fold_symbolic", "is_symbolic", "known_value", "sizes"]

_LIMIT = 4096  # elements of a symbolic array; a shape has a few


def constant(array: np.ndarray) -> Constant:
    """Return a Relay constant that holds an array."""
    return Constant(tvm.runtime.tensor(np.ascontiguousarray(array).reshape(array.shape)))


def sizes(values: Any, dtype: str = "int64") -> Expr:
    """Return the Relay expression of an array of ints and symbolic integers: a constant if all of them are ints."""
    array = np.asarray(values, dtype=object)
    if all(isinstance(v, int) for v in array.ravel().tolist()):
        return constant(array.astype(dtype))
    expr = build("size_tensor", values=array.ravel().tolist(), shape=list(array.shape), dtype=dtype)
    expr.checked_type_ = TensorType(list(array.shape), dtype)
    return expr


def is_symbolic(expr: Any) -> bool:
    """Say whether an expression is an array with symbolic integers in it."""
    return isinstance(expr, Call) and isinstance(expr.op, ir.Op) and expr.op.name == "size_tensor"


def known_value(expr: Any) -> np.ndarray | None:
    """Return the value of an expression, as an object array if symbolic integers are in it; None if it is not known."""
    if isinstance(expr, Constant):
        array = expr.data.numpy() if str(expr.data.dtype) == "bfloat16" else np.from_dlpack(expr.data)
        return array
    if is_symbolic(expr):
        shape = [int(d) for d in expr.attrs.shape]
        array = np.empty(len(expr.attrs.values), dtype=object)
        array[:] = [dims.simplify(v) for v in expr.attrs.values]
        return array.reshape(shape)
    return None


def fold_symbolic(
    node: onnx.NodeProto, version: int, values: Sequence[np.ndarray | None], dtypes: Sequence[str | None]
) -> Expr | None:
    """Return the value of a node of the ONNX domain whose inputs are known, some of them with symbols.

    Parameters
    ----------
    values, dtypes : sequence
        The inputs and their data types; None for an input that is left out.

    Returns
    -------
    Expr or None
        None when the node has to be computed at run time.
    """
    if sum(v.size for v in values if v is not None) > _LIMIT:
        return None
    attributes = Attributes(node)
    if node.op_type == "Cast":
        return _cast(values[0], dtype_name(attributes["to"], "Cast"))
    if node.op_type in _ELEMENTWISE:
        return _elementwise(node, values, dtypes, attributes)
    if node.op_type in _REDUCTIONS:
        return _reduction(node, values, dtypes, attributes, version)
    if node.op_type in _MOVES:
        return _move(node, version, values, dtypes)
    if node.op_type == "Range":
        return _range(values, dtypes)
    if node.op_type == "Size":
        return sizes(np.int64(values[0].size))
    return None


def _range(values: Sequence[Any], dtypes: Sequence[str | None]) -> Expr | None:
    start, limit, delta = (v.item() for v in values)
    if not isinstance(delta, int) or delta == 0:
        return None
    count = dims.sub(limit, start) if delta == 1 else dims.ceildiv(dims.sub(limit, start), delta)
    if not isinstance(count, int) or count > _LIMIT:
        return None
    return sizes([dims.add(start, i * delta) for i in range(max(count, 0))], dtypes[0])


# -- nodes that only move elements: run on their positions


_MOVES = {
    "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
    "Reshape", "Reverse", "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
# Which inputs are moved; the others steer, and must be plain numbers.
_MOVED = {"Concat": None, "ScatterElements": (0, 2), "ScatterND": (0, 2)}


def _move(node: onnx.NodeProto, version: int, values: Sequence[Any], dtypes: Sequence[str | None]) -> Expr | None:
    """Let the reference implementation move positions in a pool of elements, and look the elements up afterwards."""
    moved = _MOVED.get(node.op_type, (0,))
    pool: list[Any] = []
    positions = []
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
    if results is None or len(results) != 1:
        return None
    picked = np.empty(results[0].size, dtype=object)
    picked[:] = [pool[i] for i in results[0].ravel().tolist()]
    return sizes(picked.reshape(results[0].shape), dtypes[moved[0] if moved else 0])


# -- arithmetic


def _analyzer(*values: Dim) -> Analyzer:
    """Return an analyzer that knows of every symbol that it is a size."""
    analyzer = Analyzer()
    for symbol in dims.symbols(values):
        analyzer.bind(symbol, ir.Range(tirx.IntImm("int64", 0), tirx.IntImm("int64", 1 << 40)))
    return analyzer


def _proved(condition: Any, *values: Dim) -> bool:
    return bool(_analyzer(*values).can_prove(condition))


def _truth(holds: Callable[[Any, Any], Any]) -> Callable[[Dim, Dim], Dim]:
    """Return a comparison as 0 or 1: decided if sizes not being negative decides it."""

    def compare(a: Dim, b: Dim) -> Dim:
        if isinstance(a, int) and isinstance(b, int):
            return int(holds(a, b))
        condition = holds(dims.as_expr(a), dims.as_expr(b))
        if _proved(condition, a, b):
            return 1
        if _proved(tirx.Not(condition), a, b):
            return 0
        return dims.select(condition, 1, 0)

    return compare


def _equal(a: Any, b: Any) -> Any:
    return a == b if isinstance(a, int) else tirx.EQ(a, b)


_unequal = _truth(lambda a, b: a != b if isinstance(a, int) else tirx.NE(a, b))


def _truncated_division(a: Dim, b: Dim) -> Dim | None:
    """Return the quotient of integers, rounded towards zero as ONNX does."""
    if isinstance(b, int) and b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)
    x, y = dims.as_expr(a), dims.as_expr(b)
    if _proved(x >= 0, a) and _proved(y >= 0, b):
        return dims.floordiv(a, b)
    return dims.simplify(tirx.truncdiv(x, y))


def _exact_division(a: Dim, b: Dim) -> Dim | None:
    """Return the quotient of whole numbers held as floats if it is whole as well."""
    if isinstance(b, int) and b == 0:
        return None
    rest = _floor_remainder(a, b)
    return dims.floordiv(a, b) if isinstance(rest, int) and rest == 0 else None


def _floor_remainder(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else None
    return dims.simplify(tirx.floormod(dims.as_expr(a), dims.as_expr(b)))


def _truncated_remainder(a: Dim, b: Dim) -> Dim | None:
    quotient = _truncated_division(a, b)
    return None if quotient is None else dims.sub(a, dims.mul(quotient, b))


def _power(a: Dim, b: Dim) -> Dim | None:
    return reduce(dims.mul, [a] * b, 1) if isinstance(b, int) and 0 <= b <= 8 else None


def _choose(condition: Dim, a: Dim, b: Dim) -> Dim:
    if isinstance(condition, int):
        return a if condition else b
    return dims.select(condition != 0, a, b)


def _maximum(a: Dim, b: Dim) -> Dim:
    if _proved(dims.as_expr(a) >= dims.as_expr(b), a, b):
        return a
    return b if _proved(dims.as_expr(a) <= dims.as_expr(b), a, b) else dims.maximum(a, b)


def _minimum(a: Dim, b: Dim) -> Dim:
    if _proved(dims.as_expr(a) <= dims.as_expr(b), a, b):
        return a
    return b if _proved(dims.as_expr(a) >= dims.as_expr(b), a, b) else dims.minimum(a, b)


def _not(a: Dim) -> Dim:
    return _truth(_equal)(a, 0)


def _absolute(a: Dim) -> Dim:
    return _maximum(a, dims.sub(0, a))


def _and(a: Dim, b: Dim) -> Dim:
    return dims.mul(a, b)


def _or(a: Dim, b: Dim) -> Dim:
    return dims.maximum(a, b)


def _whole(a: Dim) -> Dim:
    return a


_ELEMENTWISE: dict[str, Callable[..., Dim | None]] = {
    "Abs": _absolute,
    "Add": dims.add,
    "And": _and,
    "Ceil": _whole,
    "Div": _truncated_division,
    "Equal": _truth(_equal),
    "Floor": _whole,
    "Greater": _truth(lambda a, b: a > b),
    "GreaterOrEqual": _truth(lambda a, b: a >= b),
    "Less": _truth(lambda a, b: a < b),
    "LessOrEqual": _truth(lambda a, b: a <= b),
    "Max": _maximum,
    "Min": _minimum,
    "Mod": _floor_remainder,
    "Mul": dims.mul,
    "Neg": lambda a: dims.sub(0, a),
    "Not": _not,
    "Or": _or,
    "Pow": _power,
    "Round": _whole,
    "Sub": dims.sub,
    "Sum": dims.add,
    "Where": _choose,
}
_LOGICAL = {"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"}
_VARIADIC = {"Max", "Min", "Sum"}


def _elementwise(node: onnx.NodeProto, values: Sequence[Any], dtypes: Sequence[str | None], attributes: Any) -> Expr | None:
    function = _ELEMENTWISE[node.op_type]
    result_dtype = "bool" if node.op_type in _LOGICAL else str(dtypes[-1])
    if node.op_type == "Mod" and attributes.get("fmod", 0):
        function = _truncated_remainder
    if node.op_type == "Div" and str(dtypes[0]).startswith("float"):
        function = _exact_division
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
    return None if any(v is None for v in result.ravel().tolist()) else sizes(result, result_dtype)


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
    return sizes(np.frompyfunc(lambda v: _unequal(v, 0), 1, 1)(value) if dtype == "bool" else value, dtype)


_REDUCTIONS: dict[str, tuple[Callable[[Dim, Dim], Dim], Any]] = {
    "ReduceProd": (dims.mul, 1),
    "ReduceSum": (dims.add, 0),
    "ReduceMax": (_maximum, None),
    "ReduceMin": (_minimum, None),
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
