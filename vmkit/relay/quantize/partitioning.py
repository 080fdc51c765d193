"""Where values become narrow: a hint to cast stands there, and no kernel reaches across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analysis import check_constant
from ..ir import Call, Function, RelayExpr
from ..ir.lifetime import py_class
from ..op.attached import Attached, attach
from ..op.registry import build
from ..transform.forward_rewrite import TempExpr, forward_rewrite
from ..transform.registry import ModuleTransform, per_function, relay_pass
from .config import current_qconfig
from .context import forward_op

__all__ = ["QPartitionExpr", "QuantizePartition", "partition_expr_check", "register_partition_function"]

_KEY = "FQPartitionRewrite"
Args = Sequence[RelayExpr]


@relay_pass(opt_level=1)
def QuantizePartition() -> ModuleTransform:
    """Return the pass that marks where values become narrow; the first step of automatic quantisation."""

    def change(function: Function) -> Function:
        return forward_rewrite(function, _KEY)

    return per_function(change)


@py_class("relay.QPartitionExpr", init=False)
class QPartitionExpr(TempExpr):
    """A value that may become narrow where it is used.

    Parameters
    ----------
    expr : Expr
        The value.
    """

    expr: Any

    def __init__(self, expr: RelayExpr) -> None:
        self.__ffi_init__(expr=expr)

    def realize(self) -> RelayExpr:
        """Return the value with a mark that it is cast here."""
        hinted = build("annotation.cast_hint", self.expr, dtype=current_qconfig().dtype_input)
        return build("annotation.stop_fusion", hinted)


def register_partition_function(op_name: str, frewrite: Attached | None = None, level: int = 10) -> Attached:
    """Say how an operator is marked; may be used as a decorator.

    Parameters
    ----------
    op_name : str
        The operator.
    frewrite : callable, optional
        ``f(ref_call, new_args, context) -> Expr or None``: an argument, and the result, may be a QPartitionExpr. With
        None the call stays, over marked arguments.
    level : int
        The priority.
    """
    return attach(op_name, _KEY, frewrite, level)


def partition_expr_check(expr: RelayExpr) -> tuple[bool, RelayExpr]:
    """Return whether a value may become narrow, and the value."""
    return (True, expr.expr) if isinstance(expr, QPartitionExpr) else (False, expr)


def _realized(expr: RelayExpr) -> RelayExpr:
    return expr.realize() if isinstance(expr, QPartitionExpr) else expr


@register_partition_function("nn.conv2d")
def _conv2d(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr:
    data, kernel = new_args
    return QPartitionExpr(forward_op(ref_call, [_realized(data), _realized(kernel)]))


def _same(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    is_narrow, expr = partition_expr_check(new_args[0])
    return QPartitionExpr(forward_op(ref_call, [expr])) if is_narrow else None


for _name in ("clip", "nn.relu", "nn.max_pool2d"):
    register_partition_function(_name, _same)


@register_partition_function("add")
def _add(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    (is_left, left), (is_right, right) = (partition_expr_check(a) for a in new_args)
    if not is_left and not is_right:
        return None
    if is_left and is_right:
        return QPartitionExpr(forward_op(ref_call, [_realized(a) for a in new_args]))
    if is_left and check_constant(right):
        # What batch normalisation, or a bias, adds to a product.
        return QPartitionExpr(forward_op(ref_call, [left, right]))
    # A residual connection: what is added to has been marked before.
    return forward_op(ref_call, [_realized(a) for a in new_args])


@register_partition_function("multiply")
def _multiply(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if not any(isinstance(a, QPartitionExpr) for a in new_args):
        return None
    return QPartitionExpr(forward_op(ref_call, [_realized(a) for a in new_args]))


@register_partition_function("nn.global_avg_pool2d")
def _global_avg_pool2d(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr:
    _, expr = partition_expr_check(new_args[0])
    return forward_op(ref_call, [QPartitionExpr(expr).realize()])
