"""Reductions, and what is divided by what they give."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm import ir

from ...relay.ir import Constant, Expr, const
from ...relay.op.registry import build
from .operands import Convert, Operands, ints, shape_of

__all__ = ["NORMALIZATIONS", "REDUCTIONS"]


def _reduced(name: str, call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    axis = call.attrs.axis
    return build(name, *args, axis=None if axis is None else ints(axis), keepdims=bool(call.attrs.keepdims))


def _softmax(name: str, call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build(name, *args, axis=int(call.attrs.axis))


def _of_batches(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    a = call.attrs
    if a.training or not all(isinstance(each, Constant) for each in args[1:5]):
        return None
    return build(
        "nn.batch_norm", *args, axis=int(a.axis), epsilon=float(a.epsilon), center=bool(a.center), scale=bool(a.scale)
    ).tuple_value


def _of_rows(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    a, rank = call.attrs, len(shape_of(call.args[0]))
    axes = [axis % rank for axis in ints(a.axes)]
    if len(axes) > 1:
        return None
    axis = axes[0] if axes[0] < rank - 1 else -1  # which fits rows of whatever rank
    flags = {"epsilon": float(a.epsilon), "center": bool(a.center), "scale": bool(a.scale)}
    return build("nn.layer_norm", *args, axis=axis, **flags)


def _by_root_mean_square(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    rank = len(shape_of(call.args[0]))
    axes = [axis % rank for axis in ints(call.attrs.axes)]
    if axes != list(range(rank - len(axes), rank)):
        return None
    x, weight = args
    mean = build("mean", build("multiply", x, x), axis=axes, keepdims=True)
    scale = build("rsqrt", build("add", mean, const(float(call.attrs.epsilon), "float32")))
    return build("multiply", build("multiply", x, scale), weight)


def _of_groups(name: str, call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    a, rank = call.attrs, len(shape_of(call.args[0]))
    channels = int(a.channel_axis) % rank
    if sorted(axis % rank for axis in ints(a.axes)) != [axis for axis in range(1, rank) if axis != channels]:
        return None
    more = {"num_groups": int(a.num_groups)} if name == "nn.group_norm" else {}
    flags = {"epsilon": float(a.epsilon), "center": bool(a.center), "scale": bool(a.scale)}
    return build(name, *args, axis=channels, **flags, **more)


REDUCTIONS: dict[str, Convert] = {
    f"relax.{name}": partial(_reduced, name) for name in ("mean", "sum", "max", "min", "variance")
}
NORMALIZATIONS: dict[str, Convert] = {
    "relax.nn.batch_norm": _of_batches,
    "relax.nn.group_norm": partial(_of_groups, "nn.group_norm"),
    "relax.nn.instance_norm": partial(_of_groups, "nn.instance_norm"),
    "relax.nn.layer_norm": _of_rows,
    "relax.nn.log_softmax": partial(_softmax, "nn.log_softmax"),
    "relax.nn.rms_norm": _by_root_mean_square,
    "relax.nn.softmax": partial(_softmax, "nn.softmax"),
}
