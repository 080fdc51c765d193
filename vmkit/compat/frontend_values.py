"""Types, shapes and values of expressions, found while a model is converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm.runtime import Tensor

from vmkit.compiler.stages import evaluate
from vmkit.errors import InputError, VMKitError
from vmkit.relay import op, transform
from vmkit.relay.ir import (
    Function,
    RelayExpr,
    TensorType,
    Tuple,
    TupleWrapper,
    Type,
    const,
    free_vars,
    with_functions,
)
from vmkit.relay.params import bind_params_by_name

__all__ = [
    "fold_constant",
    "infer_channels",
    "infer_shape",
    "infer_type",
    "infer_value",
    "infer_value_simulated",
    "shape_of",
    "try_infer_value",
]


def infer_type(node: RelayExpr | TupleWrapper, mod: tvm.IRModule | None = None) -> RelayExpr:
    """Return an expression with its type, which ``checked_type`` is; `mod` has the functions that it calls."""
    if isinstance(node, TupleWrapper):
        node = node.astuple()
    over = with_functions(mod if mod is not None else tvm.IRModule({}))
    is_function = isinstance(node, Function)
    over["main"] = node if is_function else Function(free_vars(node), node)
    main = transform.InferType()(over)["main"]
    return main if is_function else main.body


def infer_shape(inputs: RelayExpr | TupleWrapper, mod: tvm.IRModule | None = None) -> tuple[Any, ...] | Type:
    """Return the shape of a tensor, ints and what is known at run time only; of another value, the type."""
    found = infer_type(inputs, mod).checked_type
    return tuple(found.shape) if isinstance(found, TensorType) else found


def infer_channels(inputs: RelayExpr, transpose: bool = False) -> int:
    """Return the first size of a weight, its output channels; the second one for a transposed convolution's."""
    return int(infer_type(inputs).checked_type.shape[1 if transpose else 0])


def infer_value(input_val: RelayExpr, params: Mapping[str, Any], mod: tvm.IRModule | None = None) -> Tensor:
    """Return the value of an expression, computed on this machine.

    Parameters
    ----------
    input_val : Expr
        The expression.
    params : mapping of str to array
        The values of its free variables by name.
    mod : tvm.IRModule, optional
        The functions that it calls.

    Raises
    ------
    InputError
        When a free variable has no value.
    """
    missing = [v.name_hint for v in free_vars(input_val) if v.name_hint not in params]
    if missing:
        raise InputError(f"the expression cannot be evaluated without values of {', '.join(missing)}")
    function = Function(free_vars(input_val), Tuple([input_val]))
    over = with_functions(mod if mod is not None else tvm.IRModule({}))
    over["main"] = bind_params_by_name(function, {v.name_hint: params[v.name_hint] for v in function.params})
    return evaluate(over)[0]


def infer_value_simulated(input_val: RelayExpr, params: Mapping[str, Any]) -> Tensor:
    """Return the value of an expression as :func:`infer_value` does, with 1 in the place of inputs without values."""
    values = dict(params)
    for free in free_vars(input_val):
        if free.name_hint not in values:
            declared = free.type_annotation
            values[free.name_hint] = np.ones([int(d) for d in declared.shape], declared.dtype)
    return infer_value(input_val, values)


def try_infer_value(
    val: RelayExpr,
    on_success: Callable[[Any], Any] | None = None,
    on_failure: Callable[[], Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Any, bool]:
    """Return the value of an expression and True; where it has none at compile time, the expression and False.

    Parameters
    ----------
    val : Expr
        The expression.
    on_success, on_failure : callable, optional
        What to make of the value, and what to return in its place; they are called with the value and with nothing.
    parameters : mapping of str to array, optional
        Values of free variables.
    """
    try:
        value = infer_value(val, parameters or {}).numpy()
    except VMKitError:
        return (on_failure() if on_failure is not None else val), False
    return (on_success(value) if on_success is not None else value), True


def fold_constant(node: RelayExpr, mod: tvm.IRModule | None = None) -> RelayExpr:
    """Return an expression with what is constant in it computed."""
    return transform.FoldConstantExpr(node, mod if mod is not None else tvm.IRModule({}))


def shape_of(x: RelayExpr, dtype: str = "int64", start: int | None = None, end: int | None = None) -> RelayExpr:
    """Return the shape of a tensor as a vector: a constant where all of it is known, or else computed at run time.

    Parameters
    ----------
    x : Expr
        The tensor.
    dtype : str
        The data type of the vector.
    start, end : int, optional
        The dimensions that are wanted, as in a slice; by default all of them.
    """
    shape = infer_shape(x)
    if not isinstance(shape, tuple):
        raise InputError(f"shape_of takes a tensor, not {shape}")
    first, last, _ = slice(start, end).indices(len(shape))
    if all(isinstance(d, int) for d in shape):
        return const(np.asarray(shape[first:last], dtype))
    whole: RelayExpr = op.REGISTRY["shape_of"].builder(x, dtype)
    if (first, last) == (0, len(shape)):
        return whole
    part: RelayExpr = op.REGISTRY["strided_slice"].builder(whole, [first], [last])
    return part
