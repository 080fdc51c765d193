"""Convolutions, pooling and images of other sizes."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm import ir

from ...relay.ir import Constant, Expr
from ...relay.op.registry import build
from .operands import Convert, Operands, ints

__all__ = ["WINDOWS"]


def _window(call: ir.Call) -> dict[str, list[int]]:
    """Return how the windows of a convolution or a pooling lie."""
    return {name: ints(getattr(call.attrs, name)) for name in ("strides", "padding", "dilation")}


def _convolution(name: str, call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    a = call.attrs
    is_plain = a.out_dtype in (None, "", "float32") and a.out_layout in ("", a.data_layout)
    if not is_plain or not (isinstance(args[1], Constant) or call.args[1] in operands.fixed):
        return None
    more = {"output_padding": ints(a.output_padding)} if "transpose" in name else {}
    return build(
        name,
        *args,
        **_window(call),
        groups=int(a.groups),
        data_layout=a.data_layout,
        kernel_layout=a.kernel_layout,
        **more,
    )


def _pooled(name: str, call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    a = call.attrs
    if a.out_layout not in ("", a.layout) or (a.ceil_mode and "max" not in name):
        return None
    more = {} if "max" in name else {"count_include_pad": bool(a.count_include_pad)}
    return build(
        name,
        *args,
        pool_size=ints(a.pool_size),
        **_window(call),
        layout=a.layout,
        ceil_mode=bool(a.ceil_mode),
        **more,
    )


def _adapted(name: str, call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    a = call.attrs
    if a.out_layout not in ("", a.layout) or a.output_size is None:
        return None
    return build(name, *args, output_size=ints(a.output_size), layout=a.layout)


def _resized(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    a, (data, size) = call.attrs, args
    if a.out_dtype not in (None, "", "float32"):
        return None
    return build(
        "image.resize2d",
        data,
        size,
        roi=[float(edge) for edge in a.roi],
        layout=a.layout,
        method=a.method,
        coordinate_transformation_mode=a.coordinate_transformation_mode,
        rounding_method=a.rounding_method,
        cubic_alpha=float(a.cubic_alpha),
        cubic_exclude=int(a.cubic_exclude),
        extrapolation_value=float(a.extrapolation_value),
    )


_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv1d_transpose", "conv2d_transpose")
_POOLS = tuple(f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))

WINDOWS: dict[str, Convert] = {
    **{f"relax.nn.{name}": partial(_convolution, f"nn.{name}") for name in _CONVOLUTIONS},
    **{f"relax.nn.{name}": partial(_pooled, f"nn.{name}") for name in _POOLS},
    **{
        f"relax.nn.{name}": partial(_adapted, f"nn.{name}")
        for name in ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
    },
    "relax.image.resize2d": _resized,
}
