"""``tvm.relay.frontend.common``: what converters of models share, and scripts that build Relay call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm.ir import SourceName, Span
from tvm.runtime import Tensor

from vmkit.compiler.stages import evaluate
from vmkit.errors import InputError, VMKitError, suggest
from vmkit.relay import op, transform
from vmkit.relay.ir import (
    Function,
    RelayExpr,
    TensorType,
    Tuple,
    TupleWrapper,
    Type,
    Var,
    free_vars,
    placed,
    var,
    with_functions,
)
from vmkit.relay.params import bind_params_by_name

__all__ = [
    "ExprTable",
    "fold_constant",
    "get_name",
    "get_relay_op",
    "infer_channels",
    "infer_shape",
    "infer_type",
    "infer_value",
    "infer_value_simulated",
    "new_var",
    "set_span",
    "to_int_list",
    "try_infer_value",
    "unbind",
]

new_var = var


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


def get_name(node: RelayExpr) -> str:
    """Return the name of a variable; an empty one for other expressions."""
    return str(getattr(node, "name_hint", ""))


def get_relay_op(op_name: str) -> Callable[..., Any]:
    """Return the builder of an operator, by its name with dots, or by its last part as in ``nn`` and ``image``."""
    for full in (op_name, f"nn.{op_name}", f"image.{op_name}"):
        if full in op.REGISTRY:
            builder: Callable[..., Any] = op.REGISTRY[full].builder
            return builder
    raise RuntimeError(f"Unable to map op_name {op_name} to relay{suggest(op_name, op.REGISTRY)}")


def to_int_list(np_array: Sequence[Any] | np.ndarray) -> list[int]:
    """Return numbers as Python's."""
    return [int(number) for number in np_array]


def unbind(data: RelayExpr, axis: int = 0) -> TupleWrapper | Tuple:
    """Return a tensor's slices along an axis, without it.

    Parameters
    ----------
    data : Expr
        The tensor, whose size of the axis is known.
    axis : int
        The axis; from the end where negative.
    """
    shape = infer_shape(data)
    if not isinstance(shape, tuple):
        raise InputError(f"unbind takes a tensor, not {shape}")
    if not -len(shape) <= axis < len(shape):
        raise InputError(f"Please check input dim, it shouldn't be greater than or equal to rank: {axis}")
    count = int(shape[axis])
    parts = op.REGISTRY["split"].builder(data, indices_or_sections=count, axis=axis)
    squeeze = op.REGISTRY["squeeze"].builder
    return TupleWrapper(Tuple([squeeze(parts[i], axis=[axis]) for i in range(count)]), count)


def set_span(sym: Any, span: str | Span) -> Any:
    """Give the nodes of an expression that have none a place in the model that they come from; return it.

    Parameters
    ----------
    sym : Expr, TupleWrapper or list of them
        What was built.
    span : str or Span
        The place, or the name of what it was built from.

    Notes
    -----
    Nodes below one that has a place were there before, and stay as they are; so do variables below another node. A
    variable with a place is a new one.
    """
    place = Span(SourceName(span), 0, 0, 0, 0) if isinstance(span, str) else span
    if isinstance(sym, list | tuple):
        return type(sym)(set_span(each, place) for each in sym)
    if isinstance(sym, TupleWrapper):
        return TupleWrapper(set_span(sym.astuple(), place), sym.size)
    if isinstance(sym, Var):
        return sym if sym.span is not None else Var(sym.name_hint, sym.type_annotation, place)
    return placed([sym], place)[0]


class ExprTable:
    """Expressions by name, and the values of those that are parameters.

    Attributes
    ----------
    exprs : dict of str to Expr
        All of them.
    params : dict of str to array
        The values.
    """

    def __init__(self) -> None:
        self.exprs: dict[str, RelayExpr] = {}
        self.params: dict[str, Any] = {}
        self.const_ctr = 1
        self.in_padding = False

    def new_const(
        self, value: Any, shape: Sequence[int] | None = None, dtype: str = "float32", source_name: str | None = None
    ) -> RelayExpr:
        """Return a new variable that stands for a value."""
        name = f"_param_{self.const_ctr}"
        self.const_ctr += 1
        self.params[name] = value
        made = var(name, shape=getattr(value, "shape", shape), dtype=dtype)
        self.exprs[name] = set_span(made, source_name) if source_name else made
        return self.exprs[name]

    def get_expr(self, name: str) -> RelayExpr:
        """Return the expression of a name."""
        return self.exprs[name]

    def set_expr(self, name: str, expr: RelayExpr, force_override: bool = False) -> None:
        """Give an expression a name, which it must not have already unless `force_override`."""
        if force_override or name not in self.exprs:
            self.exprs[name] = expr

    def has_expr(self, name: str) -> bool:
        """Say whether there is an expression of a name."""
        return name in self.exprs
