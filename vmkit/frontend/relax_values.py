"""Values of Relax expressions that follow from constants alone, while a program is still being built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

__all__ = ["value_of"]

Binding = Callable[[relax.Var], "relax.Expr | None"]


class _Unknown(Exception):
    """Something of an expression is no constant, or cannot be computed here."""


def value_of(expr: relax.Expr, binding: Binding) -> np.ndarray | None:
    """Return what an expression computes from constants by the operators that sizes are computed by.

    None where a parameter is a part of it, or another operator. Numpy computes it: TVM would build each operator first,
    and dies of a division by zero and of a place that there is not.

    Parameters
    ----------
    expr : relax.Expr
        The expression.
    binding : callable
        Returns what a variable was bound to, None for a parameter.
    """
    try:
        value = _value(expr, binding, {})
    except _Unknown:
        return None
    return value if isinstance(value, np.ndarray) else None


def _value(expr: relax.Expr, binding: Binding, made: dict[relax.Var, Any]) -> Any:  # noqa: ANN401 - arrays and lists
    """Return the array that an expression is, the list of them that a tuple is, the numbers of a shape."""
    match expr:
        case relax.Var():
            if expr not in made:
                bound = binding(expr)
                if bound is None:
                    raise _Unknown
                made[expr] = _value(bound, binding, made)
            return made[expr]
        case ir.GenericConst():
            return np.array(expr.value.numpy())
        case tirx.IntImm():
            return int(expr)
        case relax.Tuple():
            return [_value(f, binding, made) for f in expr.fields]
        case relax.ShapeExpr():
            return [_value(size, binding, made) for size in expr.values]
        case relax.TupleGetItem():
            return _value(expr.tuple_value, binding, made)[expr.index]
        case ir.Call() if isinstance(expr.op, ir.Op):
            args = [_value(a, binding, made) for a in expr.args]
            rule = _RULES.get(expr.op.name)
            value = None if rule is None else rule(expr.attrs, *args)
            if value is not None:
                return value
    raise _Unknown


def _elementwise(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda _, *args: np.asarray(function(*args))


def _quotient(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray | None]:
    def rule(_: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:  # noqa: ANN401 - no attributes
        return None if (y == 0).any() or x.dtype.kind not in "iu" else np.asarray(function(x, y))

    return rule


def _truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(x // y + ((x % y != 0) & ((x < 0) != (y < 0))), x.dtype)


def _slice(_: Any, x: np.ndarray, *given: list[int]) -> np.ndarray | None:  # noqa: ANN401 - of TVM
    axes, begin, end, *strides = given
    places = [slice(None)] * x.ndim
    for at, axis in enumerate(axes):
        step = strides[0][at] if strides else 1
        if step < 1:
            return None
        places[axis] = slice(begin[at], end[at], step)
    return np.asarray(x[tuple(places)])


def _taken(attrs: Any, x: np.ndarray, index: np.ndarray) -> np.ndarray | None:  # noqa: ANN401 - of TVM
    axis = attrs.axis
    if axis is None or not ((index >= 0) & (index < x.shape[int(axis)])).all():
        return None
    return np.take(x, index, int(axis))


def _squeezed(attrs: Any, x: np.ndarray) -> np.ndarray:  # noqa: ANN401 - of TVM
    return np.squeeze(x) if attrs.axis is None else np.squeeze(x, tuple(map(int, attrs.axis)))


def _split(attrs: Any, x: np.ndarray) -> list[np.ndarray]:  # noqa: ANN401 - of TVM
    places, axis = attrs.indices_or_sections, int(attrs.axis)
    return np.split(x, int(places) if isinstance(places, int | tirx.IntImm) else [*map(int, places)], axis)


def _reduced(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def rule(attrs: Any, x: np.ndarray) -> np.ndarray:  # noqa: ANN401 - of TVM
        axes = None if attrs.axis is None else tuple(map(int, attrs.axis))
        return np.asarray(function(x, axis=axes, keepdims=bool(attrs.keepdims))).astype(x.dtype)

    return rule


# Operators of sizes, by numpy; None where there is no value, or numpy does not do as TVM does.
_RULES: dict[str, Callable[..., Any]] = {
    "relax.add": _elementwise(np.add),
    "relax.subtract": _elementwise(np.subtract),
    "relax.multiply": _elementwise(np.multiply),
    "relax.maximum": _elementwise(np.maximum),
    "relax.minimum": _elementwise(np.minimum),
    "relax.negative": _elementwise(np.negative),
    "relax.divide": _quotient(_truncated),
    "relax.floor_divide": _quotient(np.floor_divide),
    "relax.floor_mod": _quotient(np.remainder),
    "relax.astype": lambda attrs, x: x.astype(str(attrs.dtype)) if x.dtype.kind in "iub" else None,
    "relax.arange": lambda attrs, *given: np.arange(*given, dtype=str(attrs.dtype)),
    "relax.concat": lambda attrs, arrays: np.concatenate(arrays, int(attrs.axis or 0)),
    "relax.expand_dims": lambda attrs, x: np.expand_dims(x, tuple(map(int, attrs.axis))),
    "relax.squeeze": _squeezed,
    "relax.permute_dims": lambda attrs, x: np.transpose(x, None if attrs.axes is None else [*map(int, attrs.axes)]),
    "relax.reshape": lambda _, x, shape: x.reshape(shape),
    "relax.strided_slice": _slice,
    "relax.take": _taken,
    "relax.split": _split,
    "relax.prod": _reduced(np.prod),
    "relax.sum": _reduced(np.sum),
    "relax.max": _reduced(np.max),
    "relax.min": _reduced(np.min),
}
