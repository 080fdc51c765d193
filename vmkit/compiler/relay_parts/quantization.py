"""Tensors that become integers of 8 bits, and floats again, as programs of PyTorch write it: sums, rounding and limits.

Relay's passes compute products of such tensors with integers. They know them by operators of Relay's, to which these
calls add up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import ir, tirx

from ...relay.ir import Constant, Expr, Var, const, is_call
from ...relay.op.pointwise import is_move
from ...relay.op.registry import build
from ...relay.op.saturation import integer_range
from .operands import Convert, Operands, shape_of
from .zero_points import zero_point_of

__all__ = ["OF_BYTES", "REALS_OF_BYTES"]

_QUANTIZED, _ROUNDED = "contrib_quantized", "contrib_round_to_even"
_BYTES = ("int8", "uint8")


def _rounded(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build(_ROUNDED, *args)


def _difference(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    """Return a difference; of bytes in float32 and their zero point as one of integers."""
    data, zero = args
    dtype = _type_of_bytes(data.args[0].args[0]) if is_call(data, "cast") and is_call(data.args[0], "cast") else None
    if dtype is None or data.args[0].attrs.dtype != "int32":
        return build("subtract", data, zero)
    if isinstance(zero, Constant):
        known = zero.data.numpy()
        whole, (least, most) = np.rint(known), integer_range(dtype)
        if np.array_equal(whole, known) and np.all((whole >= least) & (whole <= most)) and _fits(known.shape, call):
            if not known.any():
                return data
            return build("cast", build("subtract", data.args[0], const(whole.astype("int32"))), dtype="float32")
    found = zero_point_of(zero, dtype, operands)
    if found is not None:
        return build("cast", build("subtract", data.args[0], build("cast", found, dtype="int32")), dtype="float32")
    return build("subtract", data, zero)


def _fits(shape: tuple[int, ...], call: ir.Call) -> bool:
    """Say whether what is subtracted makes the result no larger than what it is subtracted from."""
    sizes = shape_of(call.args[0])
    if len(shape) > len(sizes):
        return False
    behind = sizes[len(sizes) - len(shape) :]
    return all(
        own == 1 or (isinstance(size, tirx.IntImm) and int(size) == own)
        for own, size in zip(shape, behind, strict=True)
    )


def _type_of_bytes(value: Expr) -> str | None:
    """Return the type of a tensor that is certainly one of integers of 8 bits; None of any other."""
    while is_move(value) or is_call(value, "clip"):
        value = value.args[0]
    if is_call(value, _QUANTIZED):
        dtype = value.attrs.dtype
    elif isinstance(value, Constant):
        dtype = str(value.data.dtype)
    else:
        dtype = getattr(value.type_annotation, "dtype", None) if isinstance(value, Var) else None
    return dtype if dtype in _BYTES else None


def _cast(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    source, target = str(call.args[0].ty.dtype), str(call.attrs.dtype)
    (data,) = args
    if source == "float32":
        return _quantized(data, target, operands) if target in _BYTES else None
    if target == "bool":
        return None
    if isinstance(data, Constant) and source not in _BYTES:
        return const(data.data.numpy().astype(target))  # zero points, which passes see to be known
    if source in _BYTES and target == "float32":
        data = build("cast", data, dtype="int32")  # as products know bytes less zero points, and those without
    return build("cast", data, dtype=target)


def _quantized(data: Expr, dtype: str, operands: Operands) -> Expr | None:
    """Return bytes that a number rounded, a zero point added, and both within limits, become; None of other floats."""
    if not is_call(data, "clip"):
        return None
    limits, number = (float(data.attrs.a_min), float(data.attrs.a_max)), data.args[0]
    least, most = integer_range(dtype)
    if not (least <= limits[0] <= limits[1] <= most) or not all(map(float.is_integer, limits)):
        return None
    zero: Expr | None = const(0, dtype)
    if is_call(number, "add"):
        number, added = number.args
        zero = _known_zero(added, dtype) if isinstance(added, Constant) else zero_point_of(added, dtype, operands)
    if zero is None or not is_call(number, _ROUNDED):
        return None
    made = build(_QUANTIZED, number.args[0], zero, dtype, True)
    return made if limits == (least, most) else build("clip", made, a_min=limits[0], a_max=limits[1])


def _known_zero(added: Constant, dtype: str) -> Expr | None:
    if added.data.shape != ():
        return None
    zero, (least, most) = float(added.data.numpy()), integer_range(dtype)
    return const(int(zero), dtype) if zero.is_integer() and least <= zero <= most else None


REALS_OF_BYTES: dict[str, Convert] = {"relax.round": _rounded, "relax.subtract": _difference}
"""What takes and gives float32 alone."""

OF_BYTES: dict[str, Convert] = {"relax.astype": _cast}
