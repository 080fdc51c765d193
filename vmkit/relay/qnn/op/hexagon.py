"""Quantised products on Hexagon: channels are filled up to the groups that its instructions multiply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ...ir import Call, Constant, RelayExpr, Type, const
from ...op.attrs import Attrs
from ...op.registry import build, entry
from .integer_products import attribute_values
from .legalizations import qnn_conv2d_legalize, qnn_dense_legalize

__all__: list[str] = []

Inputs: TypeAlias = Sequence[RelayExpr]
Types: TypeAlias = Sequence[Type]

# The instruction vrmpy sums up 4 products of integers of 8 bits in each of 32 lanes.
_GROUP, _LANES = 4, 32


def _missing(size: int, multiple: int) -> int:
    return -size % multiple


def _filled(data: RelayExpr, rank: int, axis: int, by: int, value: RelayExpr | float = 0) -> RelayExpr:
    widths = [[0, by if k == axis else 0] for k in range(rank)]
    return build("nn.pad", data, pad_width=widths, pad_value=value)


def _longer(parameter: RelayExpr, by: int, value: float) -> RelayExpr | None:
    """Return the parameter of the channels with more of them; None where it is not known."""
    if not isinstance(parameter, Constant):
        return None
    array = parameter.data.numpy()
    return parameter if array.size == 1 else const(np.append(array, np.full(by, value, array.dtype)))


def _widened(inputs: Inputs, types: Types, op: str, values: dict[str, Any], missing: int) -> Call | None:
    """Return a product with more channels of its result, of which those that were are taken."""
    data, kernel, zero_point, kernel_zero_point, scale, kernel_scale = inputs
    result = list(types[-1].concrete_shape)
    zero_points, scales = _longer(kernel_zero_point, missing, 0), _longer(kernel_scale, missing, 1.0)
    if zero_points is None or scales is None:
        return None
    kernel = _filled(kernel, len(types[1].shape), 0, missing)
    wide = entry(op).call(data, kernel, zero_point, zero_points, scale, scales, **values)
    return build("strided_slice", wide, begin=[0] * len(result), end=result, strides=[1])


def _is_fit(types: Types) -> bool:
    known = all(isinstance(d, int) for ty in (*types[:2], types[-1]) for d in ty.shape)
    return known and all(ty.dtype in ("int8", "uint8") for ty in types[:2])


@qnn_conv2d_legalize.register("hexagon")
def _conv2d(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    if attrs.groups != 1 or (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "OIHW") or not _is_fit(types):
        return None
    outputs, depth = types[1].concrete_shape[:2]
    deeper, wider = _missing(depth, _GROUP), _missing(outputs, _LANES)
    data, kernel, zero_point, kernel_zero_point, *scales = inputs
    if deeper:
        fill = _fill(zero_point, kernel_zero_point, types[0].dtype)
        if fill is None:
            return None
        kernel, data = _filled(kernel, 4, 1, deeper), _filled(data, 4, 1, deeper, fill)
    inputs = data, kernel, zero_point, kernel_zero_point, *scales
    values = attribute_values(attrs)
    if wider:
        return _widened(inputs, types, "qnn.conv2d", {**values, "channels": outputs + wider}, wider)
    return entry("qnn.conv2d").call(*inputs, **values) if deeper else None


def _fill(zero_point: RelayExpr, kernel_zero_point: RelayExpr, dtype: str) -> RelayExpr | float | None:
    """Return what fills up the data so that its products with a kernel filled up with 0 are 0; None where unknown."""
    if isinstance(kernel_zero_point, Constant) and not kernel_zero_point.data.numpy().any():
        return 0
    if not isinstance(zero_point, Constant):
        return None
    return const(np.asarray(zero_point.data.numpy().reshape(()), dtype))


@qnn_dense_legalize.register("hexagon")
def _dense(attrs: Attrs, inputs: Inputs, types: Types) -> Call | None:
    if not _is_fit(types):
        return None
    units = types[1].concrete_shape[0]
    missing = _missing(units, _LANES)
    if not missing:
        return None
    return _widened(inputs, types, "qnn.dense", {**attribute_values(attrs), "units": units + missing}, missing)
