"""Simulated quantisations: which values become integers, and of which kind."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..analysis import check_constant, free_vars
from ..ir import Call, Constant, Function, RelayExpr, Tuple, const, is_call, var
from ..ir.lifetime import py_class
from ..op.attached import Attached, attach
from ..op.registry import entry
from ..transform.forward_rewrite import TempExpr, forward_rewrite, realized
from ..transform.registry import ModuleTransform, per_function, relay_pass
from .config import QAnnotateKind, current_qconfig
from .context import forward_op, quantize_context

__all__ = [
    "SIMULATED",
    "QAnnotateExpr",
    "QuantizeAnnotate",
    "attach_simulated_quantize",
    "register_annotate_function",
]

logger = logging.getLogger(__name__)

SIMULATED = "relay.op.annotation.simulated_quantize"
_KEY = "FQAnnotateRewrite"
_INPUT, _WEIGHT, _ACTIVATION = QAnnotateKind.INPUT, QAnnotateKind.WEIGHT, QAnnotateKind.ACTIVATION
Args = Sequence[RelayExpr]


@relay_pass(opt_level=1)
def QuantizeAnnotate() -> ModuleTransform:
    """Return the pass that puts simulated quantisations where values become integers.

    Their scales and limits are parameters of the function, which calibration gives values to.
    """

    def change(function: Function) -> Function:
        changed = forward_rewrite(function, _KEY, _as_input)
        new = free_vars(changed)
        return changed if not new else Function([*changed.params, *new], changed.body, None, list(changed.type_params),
                                                changed.attrs, changed.span)  # fmt: skip

    return per_function(change)


@py_class("relay.QAnnotateExpr", init=False)
class QAnnotateExpr(TempExpr):
    """A value that is computed with integers.

    Parameters
    ----------
    expr : Expr
        The value.
    kind : int
        Its kind, of :class:`QAnnotateKind`.
    """

    expr: Any
    kind: int

    def __init__(self, expr: RelayExpr, kind: int) -> None:
        self.__ffi_init__(expr=expr, kind=int(kind))

    def realize(self) -> RelayExpr:
        """Return the value."""
        return self.expr


def _as_input(expr: RelayExpr) -> RelayExpr:
    if not isinstance(expr, QAnnotateExpr):
        return expr
    return QAnnotateExpr(attach_simulated_quantize(expr.expr, _INPUT), _INPUT)


def register_annotate_function(op_name: str, frewrite: Attached | None = None, level: int = 10) -> Attached:
    """Say which operands of an operator become integers; may be used as a decorator.

    Parameters
    ----------
    op_name : str
        The operator.
    frewrite : callable, optional
        ``f(ref_call, new_args, context) -> Expr or None``: an argument, and the result, may be a QAnnotateExpr. With
        None the call stays in reals.
    level : int
        The priority.
    """

    def put(given: Attached) -> Attached:
        def guarded(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
            if not current_qconfig().guard(ref_call):
                return forward_op(ref_call, [realized(a) for a in new_args])
            return given(ref_call, new_args, ctx)

        attach(op_name, _KEY, guarded, level)
        return given

    return put if frewrite is None else put(frewrite)


def attach_simulated_quantize(data: RelayExpr, kind: int, sign: bool = True, rounding: str = "round") -> Call:
    """Return a value with a simulated quantisation after it: the same for the same value, kind, sign and rounding.

    Parameters
    ----------
    data : Expr
        The value.
    kind : int
        Its kind, of :class:`QAnnotateKind`.
    sign, rounding
        What the simulation knows: signed integers, and ``"round"``.
    """
    if is_call(data, SIMULATED) and (data.attrs.kind, data.attrs.sign, data.attrs.rounding) == (kind, sign, rounding):
        return data
    made = quantize_context().qnode_map
    key = (data, kind, sign, rounding)
    if key not in made:
        parameters = [var(name) for name in ("dom_scale", "clip_min", "clip_max")]
        made[key] = entry(SIMULATED).call(data, *parameters, kind=kind, sign=sign, rounding=rounding)
    return made[key]


def _known(anno: RelayExpr) -> tuple[RelayExpr, int | None]:
    return (anno.expr, anno.kind) if isinstance(anno, QAnnotateExpr) else (anno, None)


def _attached(expr: RelayExpr, kind: int | None) -> RelayExpr:
    """Return an operand as narrow integers: a constant as a weight, a wide value quantised anew."""
    if kind == _INPUT:
        return expr
    if isinstance(expr, Constant) and not expr.data.shape:
        # The simulation is one of tensors with dimensions; a number broadcasts as a vector of one does.
        expr = const(expr.data.numpy().reshape(1))
    return attach_simulated_quantize(expr, _WEIGHT if kind is None and check_constant(expr) else _INPUT)


# -- rules


@register_annotate_function("nn.contrib_conv2d_NCHWc")
def _blocked_conv2d(ref_call: Call, new_args: Args, ctx: None) -> None:
    logger.warning("a convolution of a blocked layout stays in reals; quantise the program before its layout changes")


def _product(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if quantize_context().check_to_skip(ref_call):
        return None
    (data, kind), (weight, weight_kind) = (_known(a) for a in new_args)
    if kind is None or kind == _ACTIVATION:
        data = attach_simulated_quantize(data, _INPUT)
    if weight_kind is not None:
        raise ValueError(f"the weight of {ref_call.op.name} is computed by the program; its scale needs a constant")
    weight = attach_simulated_quantize(weight, _WEIGHT)
    return QAnnotateExpr(forward_op(ref_call, [data, weight]), _ACTIVATION)


register_annotate_function("nn.conv2d", _product)
register_annotate_function("nn.conv1d", _product)


@register_annotate_function("nn.dense")
def _dense(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    return None if current_qconfig().skip_dense_layer else _product(ref_call, new_args, ctx)


@register_annotate_function("nn.batch_matmul")
def _batch_matmul(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if quantize_context().check_to_skip(ref_call):
        return None
    return QAnnotateExpr(forward_op(ref_call, [_attached(*_known(a)) for a in new_args]), _ACTIVATION)


@register_annotate_function("multiply")
def _multiply(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if quantize_context().check_to_skip(ref_call):
        return None
    known = [_known(a) for a in new_args]
    if all(kind is None for _, kind in known):
        return None
    return QAnnotateExpr(forward_op(ref_call, [_attached(*k) for k in known]), _ACTIVATION)


@register_annotate_function("add")
def _add(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if quantize_context().check_to_skip(ref_call):
        return None
    (left, left_kind), (right, right_kind) = (_known(a) for a in new_args)
    if left_kind is None and right_kind is None:
        return None
    # A sum of narrow values is wide, and so is one of a wide and a narrow value.
    if left_kind is None:
        left = _attached(left, None)
    elif right_kind is None or left_kind == right_kind == _ACTIVATION:
        right = _attached(right, right_kind)
    return QAnnotateExpr(forward_op(ref_call, [left, right]), _ACTIVATION)


def _identity(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if quantize_context().check_to_skip(ref_call):
        return None
    expr, kind = _known(new_args[0])
    return None if kind is None else QAnnotateExpr(forward_op(ref_call, [expr]), kind)


for _name in (
    *("reshape", "clip", "nn.relu", "strided_slice", "nn.avg_pool2d", "nn.batch_flatten", "transpose"),
    "annotation.stop_fusion",
):
    register_annotate_function(_name, _identity)


def _narrow(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if quantize_context().check_to_skip(ref_call):
        return None
    expr, kind = _known(new_args[0])
    if kind is None:
        return None
    if kind == _ACTIVATION:
        expr = attach_simulated_quantize(expr, _INPUT)
    return QAnnotateExpr(forward_op(ref_call, [expr]), _INPUT)


register_annotate_function("nn.max_pool2d", _narrow)
register_annotate_function("nn.max_pool1d", _narrow)


@register_annotate_function("annotation.cast_hint")
def _cast_hint(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    made = _narrow(ref_call, new_args, ctx)
    # Nothing is cast where nothing is quantised.
    return _known(new_args[0])[0] if made is None else made


@register_annotate_function("concatenate")
def _concatenate(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if quantize_context().check_to_skip(ref_call) or not isinstance(new_args[0], Tuple):
        return None
    known = [_known(f) for f in new_args[0].fields]
    if all(kind is None for _, kind in known):
        return None
    fields = [e if kind is not None else attach_simulated_quantize(e, _ACTIVATION) for e, kind in known]
    return QAnnotateExpr(forward_op(ref_call, [Tuple(fields)]), _ACTIVATION)


@register_annotate_function("nn.global_avg_pool2d")
def _global_avg_pool2d(ref_call: Call, new_args: Args, ctx: None) -> RelayExpr | None:
    if quantize_context().check_to_skip(ref_call):
        return None
    expr, kind = _known(new_args[0])
    if kind is None:
        return None
    # What follows is small, and its accuracy decides that of the program.
    quantize_context().stop_quantize()
    return forward_op(ref_call, [expr])
