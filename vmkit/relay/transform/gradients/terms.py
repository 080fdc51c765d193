"""What gradients are written in: calls of operators, constants of a tensor's type, broadcasting undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....errors import ModelError
from ....values.element_types import numpy_dtype
from ...ir import Call, Expr, RelayExpr, TensorType, const, dims
from ...op.attached import register_gradient
from ...op.registry import build as call

__all__ = ["Gradient", "call", "fixed_shape", "gradient_of", "number", "tensor_type", "unbroadcast", "zeros"]

Gradient = Callable[[Call, Expr], list[Expr]]


def gradient_of(*names: str) -> Callable[[Gradient], Gradient]:
    """Attach the decorated gradient to operators."""

    def decorate(gradient: Gradient) -> Gradient:
        for name in names:
            register_gradient(name, gradient)
        return gradient

    return decorate


def tensor_type(expr: RelayExpr) -> TensorType:
    """Return the type of a typed tensor."""
    found = expr.checked_type
    if not isinstance(found, TensorType):
        raise ModelError(f"a gradient takes a tensor here, not {found}")
    return found


def fixed_shape(expr: RelayExpr, operator: str) -> list[int]:
    """Return the shape of a typed tensor, whose sizes a gradient has to know.

    Raises
    ------
    ModelError
        When one is not known before the program runs.
    """
    shape = list(tensor_type(expr).shape)
    if not all(isinstance(d, int) for d in shape):
        raise ModelError(
            f"the gradient of {operator} takes known sizes, not {tensor_type(expr)}; give them by its type"
        )
    return [int(d) for d in shape]


def number(value: float, like: RelayExpr) -> Expr:
    """Return a scalar of the data type of a typed tensor."""
    return const(np.asarray(value, numpy_dtype(tensor_type(like).dtype)), tensor_type(like).dtype)


def zeros(like: RelayExpr) -> Expr:
    """Return zeros of the type of a tensor."""
    return call("zeros_like", like)


def unbroadcast(grad: Expr, argument: RelayExpr, result: RelayExpr) -> Expr:
    """Return the gradient of an argument that was broadcast to a result, from one of the result's shape."""
    old, new = list(tensor_type(argument).shape), list(tensor_type(result).shape)
    if len(old) == len(new) and all(dims.equal(a, b) for a, b in zip(old, new, strict=True)):
        return grad
    return call("collapse_sum_like", grad, argument)


def permuted(grad: Expr, axes: Sequence[int]) -> Expr:
    """Return a tensor with its axes in another order."""
    return call("transpose", grad, axes=list(axes))
