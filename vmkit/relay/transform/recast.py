"""Operators computed in another data type, each between casts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import tvm

from ..analysis.features import count_layers
from ..analysis.infer_type import infer_expr, infer_module
from ..expr_functor import ExprMutator
from ..ir import Call, Function, RelayExpr, Tuple, Var, free_vars, is_call, with_functions
from ..op.attrs import Attrs
from ..op.registry import build, entry
from .fresh_copy import fresh_copies

__all__ = ["recast"]


@overload
def recast(
    expr: tvm.IRModule, dtype: str, out_dtype: str, ops: Sequence[str] = ..., skip_layers: Sequence[int] = ...
) -> tvm.IRModule: ...


@overload
def recast(
    expr: RelayExpr, dtype: str, out_dtype: str, ops: Sequence[str] = ..., skip_layers: Sequence[int] = ...
) -> RelayExpr: ...


def recast(
    expr: RelayExpr | tvm.IRModule,
    dtype: str,
    out_dtype: str,
    ops: Sequence[str] = ("nn.conv2d",),
    skip_layers: Sequence[int] = (),
) -> RelayExpr | tvm.IRModule:
    """Return a program in which some operators compute in another data type; their operands and results are cast.

    It serves to measure a data type's speed: a cast to integers without scaling leaves little of a model's accuracy.
    :func:`ToMixedPrecision` is for models that shall be used.

    Parameters
    ----------
    expr : Expr, Function or tvm.IRModule
        The program; of a module, ``main``.
    dtype : str
        The data type that operands are cast to.
    out_dtype : str
        The ``out_dtype`` of operators that have this attribute.
    ops : sequence of str
        The names of the operators.
    skip_layers : sequence of int
        Which of them stay as they are, counted along the path that has most of them; negative numbers count from the
        last.

    Raises
    ------
    TypeCheckError
        When there is no operator of a name.
    """
    if isinstance(expr, tvm.IRModule):
        changed = recast(expr["main"], dtype, out_dtype, ops, skip_layers)
        return infer_module(
            with_functions(expr, {**dict(expr.functions.items()), expr.get_global_var("main"): changed})
        )
    names = [entry(name).name for name in ops]
    # Types are found of a copy: nothing is written into the program that was given.
    copies = fresh_copies(expr, {v: Var(v.name_hint, v.type_annotation) for v in free_vars(expr)})
    made = copies[expr]
    infer_expr(made if isinstance(made, Function) else Function(free_vars(made), made))
    return _Recast(dtype, out_dtype, names, count_layers(expr, names), skip_layers, copies).visit(expr)


class _Recast(ExprMutator):
    def __init__(
        self,
        dtype: str,
        out_dtype: str,
        names: Sequence[str],
        layers: int,
        skipped: Sequence[int],
        typed: Mapping[Any, RelayExpr],
    ) -> None:
        super().__init__()
        self.typed = typed
        self.dtype, self.out_dtype = dtype, out_dtype
        self.names = names
        self.skipped = {layer + layers if layer < 0 else layer for layer in skipped}
        # The layer of the next of the operators on the way down.
        self.layer = layers - 1

    def visit_call(self, call: Call) -> RelayExpr:
        layer = self.layer
        is_cast = is_call(call, *self.names)
        below = layer - is_cast
        args = []
        for arg in call.args:
            self.layer = below
            args.append(self.visit(arg))
        self.layer = layer
        if not is_cast or layer in self.skipped:
            return Call(self.visit(call.op), args, call.attrs, list(call.type_args), call.span)
        made = Call(call.op, [self.cast(arg) for arg in args], self.attributes(call.attrs), span=call.span)
        return build("cast", made, dtype=self.typed[call].checked_type.dtype)

    def cast(self, arg: RelayExpr) -> RelayExpr:
        if isinstance(arg, Tuple):
            return Tuple([self.cast(part) for part in arg.fields], arg.span)
        return build("cast", arg, dtype=self.dtype)

    def attributes(self, attrs: Attrs | None) -> Attrs | None:
        values = {} if attrs is None else {field.name: getattr(attrs, field.name) for field in attrs.declared}
        if attrs is None or "out_dtype" not in values:
            return attrs
        return type(attrs)(**{**values, "out_dtype": self.out_dtype})
