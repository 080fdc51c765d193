"""Layers that make their own parameters: ``layers.conv2d(data, name="conv0", ...)`` adds ``conv0_weight``.

A parameter gets no type; type inference finds it from the layer's attributes and its input.
"""

from __future__ import annotations

from typing import Any

from .. import nn
from ..ir import Expr, var

__all__ = ["batch_norm_infer", "conv1d", "conv2d", "conv2d_transpose", "conv3d", "conv_kernel_layout", "dense_add_bias"]

# Layout of the data -> layouts of the kernel: of a usual convolution, and of a depthwise one.
_KERNEL_LAYOUTS = {
    "NCW": ("OIW", "OIW"),
    "NWC": ("WIO", "WOI"),
    "NCHW": ("OIHW", "OIHW"),
    "NHWC": ("HWIO", "HWOI"),
    "NCDHW": ("OIDHW", "OIDHW"),
    "NDHWC": ("DHWIO", "DHWOI"),
}


def batch_norm_infer(
    data: Expr,
    gamma: Expr | None = None,
    beta: Expr | None = None,
    moving_mean: Expr | None = None,
    moving_var: Expr | None = None,
    *,
    name: str,
    **attributes: Any,
) -> Expr:
    """Return the normalised tensor of ``nn.batch_norm``; parameters that are not given are made."""
    return nn.batch_norm(
        data,
        _given(gamma, f"{name}_gamma"),
        _given(beta, f"{name}_beta"),
        _given(moving_mean, f"{name}_moving_mean"),
        _given(moving_var, f"{name}_moving_var"),
        **attributes,
    )[0]


def conv1d(data: Expr, weight: Expr | None = None, *, name: str, **attributes: Any) -> Expr:
    """Return ``nn.conv1d``; without a weight, with a new parameter."""
    return nn.conv1d(data, _given(weight, f"{name}_weight"), **attributes)


def conv2d(data: Expr, weight: Expr | None = None, *, name: str, **attributes: Any) -> Expr:
    """Return ``nn.conv2d``; without a weight, with a new parameter."""
    return nn.conv2d(data, _given(weight, f"{name}_weight"), **attributes)


def conv3d(data: Expr, weight: Expr | None = None, *, name: str, **attributes: Any) -> Expr:
    """Return ``nn.conv3d``; without a weight, with a new parameter."""
    return nn.conv3d(data, _given(weight, f"{name}_weight"), **attributes)


def conv2d_transpose(data: Expr, weight: Expr | None = None, *, name: str, **attributes: Any) -> Expr:
    """Return ``nn.conv2d_transpose``; without a weight, with a new parameter."""
    return nn.conv2d_transpose(data, _given(weight, f"{name}_weight"), **attributes)


def dense_add_bias(
    data: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    units: int | None = None,
    *,
    name: str,
    **attributes: Any,
) -> Expr:
    """Return ``nn.dense`` with a bias added along the last axis; parameters that are not given are made."""
    product = nn.dense(data, _given(weight, f"{name}_weight"), units, **attributes)
    return nn.bias_add(product, _given(bias, f"{name}_bias"), axis=-1)


def _given(parameter: Expr | None, name: str) -> Expr:
    return var(name) if parameter is None else parameter


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the kernel's layout that goes with a layout of the data, such as HWIO with NHWC.

    Raises
    ------
    ValueError
        For a layout other than those of ``NC`` and ``N..C`` in one to three dimensions.
    """
    if data_layout not in _KERNEL_LAYOUTS:
        raise ValueError(f"no kernel layout goes with the data layout {data_layout!r}; known: {list(_KERNEL_LAYOUTS)}")
    return _KERNEL_LAYOUTS[data_layout][is_depthwise]
