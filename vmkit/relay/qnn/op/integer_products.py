"""Quantised products over other integers: the same reals, by shifted data and zero points.

``scale * (q - zero_point)`` is ``scale * ((q + 128) - (zero_point + 128))``, which takes int8 to uint8, and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ...ir import Call, Constant, Expr, RelayExpr, Type, const
from ...op.attrs import Attrs
from ...op.nn.layout import axes_of
from ...op.qnn.parameters import Parameter
from ...op.registry import build, entry

__all__ = [
    "attribute_values",
    "helper_change_dtypes_to_be_same",
    "helper_change_dtypes_to_int8",
    "helper_change_dtypes_to_uint8_int8",
    "helper_no_fast_int8_hw_legalization",
]

Inputs: TypeAlias = Sequence[RelayExpr]
Types: TypeAlias = Sequence[Type]

_SHIFTS = {"uint8": 128, "int8": -128}


def attribute_values(attrs: Attrs) -> dict[str, Any]:
    """Return attributes by name."""
    return {f.name: getattr(attrs, f.name) for f in attrs.declared}


def _is_of_bytes(types: Types) -> bool:
    return types[0].dtype in _SHIFTS and types[1].dtype in _SHIFTS


def helper_no_fast_int8_hw_legalization(attrs: Attrs, inputs: Inputs, types: Types, relay_op: str) -> Call | None:
    """Return a product of int16 differences from the zero points, for processors that are slow with 8 bits.

    Parameters
    ----------
    attrs, inputs, types
        Those of the quantised product; `types` are of the inputs and, last, of the result.
    relay_op : str
        The operator on reals or wide integers, such as ``"nn.conv2d"``.

    Returns
    -------
    Call or None
        None for data that is no longer of 8 bits, or a kernel whose channels lie along two of its axes.
    """
    data, kernel, zero_point, kernel_zero_point = inputs[:4]
    if not _is_of_bytes(types):
        return None
    shape = types[1].shape
    axis = axes_of(attrs.kernel_layout).index("O") if relay_op != "nn.dense" else 0
    offset = Parameter.of(cast("Expr", kernel_zero_point), types[3])
    if not offset.is_one and not (attrs_groups(attrs) == 1 or types[3].shape[0] == shape[axis]):
        return None
    shifted = _wide(data) - _wide(Parameter.of(cast("Expr", zero_point), types[2]).value)
    shifted_kernel = _wide(kernel) - _wide(offset.along(axis, len(shape)))
    return entry(relay_op).call(shifted, shifted_kernel, **attribute_values(attrs))


def attrs_groups(attrs: Attrs) -> int:
    """Return the number of groups of a product; a product of matrices is one."""
    return int(getattr(attrs, "groups", 1))


def _wide(expr: RelayExpr) -> RelayExpr:
    return build("cast", expr, dtype="int16")


def _shifted(data: RelayExpr, zero_point: RelayExpr, dtype: str) -> tuple[RelayExpr, RelayExpr]:
    """Return data of the other type of 8 bits as one of a type, and its zero point."""
    by = _SHIFTS[dtype]
    moved = build("cast", build("cast", data, dtype="int32") + const(by, "int32"), dtype=dtype)
    if isinstance(zero_point, Constant):
        return moved, const(np.asarray(zero_point.data.numpy() + by, "int32"))
    return moved, zero_point + const(by, "int32")


def _over(attrs: Attrs, inputs: Inputs, types: Types, op: str, dtypes: tuple[str, str]) -> Call | None:
    """Return the quantised product over two data types; None where it is, or where its integers are wider."""
    if not _is_of_bytes(types) or (types[0].dtype, types[1].dtype) == dtypes:
        return None
    data, kernel, zero_point, kernel_zero_point, scale, kernel_scale = inputs
    if types[0].dtype != dtypes[0]:
        data, zero_point = _shifted(data, zero_point, dtypes[0])
    if types[1].dtype != dtypes[1]:
        kernel, kernel_zero_point = _shifted(kernel, kernel_zero_point, dtypes[1])
    operands = data, kernel, zero_point, kernel_zero_point, scale, kernel_scale
    return entry(op).call(*operands, **attribute_values(attrs))


def helper_change_dtypes_to_uint8_int8(attrs: Attrs, inputs: Inputs, types: Types, relay_op: str) -> Call | None:
    """Return a quantised product of uint8 with int8, which VNNI multiplies; None where it is one.

    Parameters
    ----------
    attrs, inputs, types
        Those of the quantised product; `types` are of the inputs and, last, of the result.
    relay_op : str
        The quantised operator, such as ``"qnn.conv2d"``.
    """
    return _over(attrs, inputs, types, relay_op, ("uint8", "int8"))


def helper_change_dtypes_to_int8(attrs: Attrs, inputs: Inputs, types: Types, relay_op: str) -> Call | None:
    """Return a quantised product of int8 with int8, which dp4a multiplies; None where it is one.

    Parameters
    ----------
    attrs, inputs, types, relay_op
        As for :func:`helper_change_dtypes_to_uint8_int8`.
    """
    return _over(attrs, inputs, types, relay_op, ("int8", "int8"))


def helper_change_dtypes_to_be_same(attrs: Attrs, inputs: Inputs, types: Types, relay_op: str) -> Call | None:
    """Return a quantised product of data with a kernel of the same data type, which Arm multiplies; None where it is.

    Parameters
    ----------
    attrs, inputs, types, relay_op
        As for :func:`helper_change_dtypes_to_uint8_int8`.
    """
    return _over(attrs, inputs, types, relay_op, (types[1].dtype, types[1].dtype))
