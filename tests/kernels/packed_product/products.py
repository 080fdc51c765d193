"""Calls of the operator, and what convolutions are exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from vmkit import relay
from vmkit.optimize.ops.packed_product import packed_weight
from vmkit.relay.op.registry import entry

__all__ = ["convolved", "packed_product"]


def packed_product(data: relay.Expr, weight: np.ndarray, encoding: str, *fillers: int, **attrs: Any) -> relay.Call:
    """Return a call of the operator with a weight (units, window, channels) packed for it."""
    operator = entry("nn.contrib_packed_product")
    values = {"encoding": encoding, "channels": weight.shape[-1], "units": weight.shape[0], **attrs}
    values["extras"] = packed_weight(operator.attrs(**values)).extras_of(weight)
    packed = packed_weight(operator.attrs(**values)).pack(weight)
    return operator.call(data, relay.const(packed), *(relay.const(np.uint8(each)) for each in fillers), **values)


def convolved(x: np.ndarray, w: np.ndarray, strides: Any, padding: Any, dilation: Any, filler: int = 0) -> np.ndarray:
    """Return the convolution of NHWC data with an OHWI weight, in float64 or int64."""
    exact = "float64" if x.dtype.kind == "f" else "int64"
    (top, left, bottom, right), (_, height, width, _) = padding, w.shape
    padded = np.pad(x.astype(exact), ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=filler)
    rows = (padded.shape[1] - (height - 1) * dilation[0] - 1) // strides[0] + 1
    columns = (padded.shape[2] - (width - 1) * dilation[1] - 1) // strides[1] + 1
    out = np.zeros((x.shape[0], rows, columns, w.shape[0]), exact)
    for i in range(height):
        for j in range(width):
            y0, x0 = i * dilation[0], j * dilation[1]
            part = padded[:, y0 : y0 + rows * strides[0] : strides[0], x0 : x0 + columns * strides[1] : strides[1]]
            out += part[:, :rows, :columns] @ w[:, i, j].astype(exact).T
    return out
