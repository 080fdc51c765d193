"""``tvm.relay.frontend.common``: what converters of models share, and scripts that build Relay call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.ir import SourceName, Span

from vmkit.errors import InputError
from vmkit.relay import op
from vmkit.relay.ir import RelayExpr, Tuple, TupleWrapper, Var, placed, var

from .frontend_attributes import AttrCvt, Renamer, RequiredAttr, StrAttrsDict, get_relay_op
from .frontend_layers import autopad, gru_cell, lstm_cell, rnn_cell
from .frontend_values import (
    fold_constant,
    infer_channels,
    infer_shape,
    infer_type,
    infer_value,
    infer_value_simulated,
    shape_of,
    try_infer_value,
)

__all__ = [
    "AttrCvt",
    "ExprTable",
    "Renamer",
    "RequiredAttr",
    "StrAttrsDict",
    "autopad",
    "fold_constant",
    "get_name",
    "get_relay_op",
    "gru_cell",
    "infer_channels",
    "infer_shape",
    "infer_type",
    "infer_value",
    "infer_value_simulated",
    "lstm_cell",
    "new_var",
    "rnn_cell",
    "set_span",
    "shape_of",
    "to_int_list",
    "try_infer_value",
    "unbind",
]

new_var = var


def get_name(node: RelayExpr) -> str:
    """Return the name of a variable; an empty one for other expressions."""
    return str(getattr(node, "name_hint", ""))


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
