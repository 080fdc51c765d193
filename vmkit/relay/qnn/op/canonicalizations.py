"""Functions of quantised numbers as tables: integers of a few bits have few values.

>>> import numpy as np
>>> from vmkit import relay
>>> one, zero = relay.const(1.0), relay.const(0)
>>> table = create_integer_lookup_table(np.sqrt, one, zero, one, zero, in_dtype="uint8", out_dtype="uint8")
>>> table[:5].tolist()
[0, 1, 1, 2, 2]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm

from ....errors import UnsupportedOperatorError
from ...analysis.infer_type import infer_module
from ...ir import Constant, Function, RelayExpr, Tuple, const
from ...op.registry import build
from ...transform.evaluation import evaluate_now

__all__ = ["create_integer_lookup_op", "create_integer_lookup_table", "run_const_expr"]

Function1 = Callable[[np.ndarray], np.ndarray]

# A table of all integers of more bits is larger than what it would save.
_MOST_BITS = 16


def run_const_expr(expr: RelayExpr) -> np.ndarray:
    """Return the value of a tensor expression without variables; it is compiled and run on this machine."""
    (value,) = evaluate_now(infer_module(tvm.IRModule({"main": Function([], Tuple([expr]))})))
    return value.numpy()


def create_integer_lookup_table(
    floating_point_func: Function1,
    input_scale: RelayExpr,
    input_zero_point: RelayExpr,
    output_scale: RelayExpr,
    output_zero_point: RelayExpr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> np.ndarray:
    """Return the quantised results of a function for all quantised arguments.

    Parameters
    ----------
    floating_point_func : callable
        The function, on arrays of float32. Where it gives no number, the result is that of 0.
    input_scale, input_zero_point, output_scale, output_zero_point : Constant
        One number each.
    in_axis, out_axis : int
        What Relay took beside; with one scale for all there is no axis.
    in_dtype, out_dtype : str
        Integers of at most 16 bits.

    Returns
    -------
    numpy.ndarray
        A vector of `out_dtype`. Arguments are in the order of their bits read as an unsigned integer.

    Raises
    ------
    ValueError
        When a data type is not one of integers.
    UnsupportedOperatorError
        When a scale or zero point is not one constant number, or a table of all arguments were too large.
    """
    for dtype in (in_dtype, out_dtype):
        if not np.issubdtype(np.dtype(dtype), np.integer):
            raise ValueError(f"a lookup table is one of integers, not from {in_dtype} to {out_dtype}")
    bits = np.iinfo(in_dtype).bits
    if bits > _MOST_BITS:
        raise UnsupportedOperatorError(f"a lookup table of all {in_dtype} has 2**{bits} elements")
    patterns = np.arange(1 << bits, dtype=f"uint{bits}").view(in_dtype)
    scale, zero_point = np.float32(_number(input_scale, "input_scale")), int(_number(input_zero_point, "zero point"))
    with np.errstate(all="ignore"):
        reals = floating_point_func((patterns.astype("int64") - zero_point).astype("float32") * scale)
        scaled = np.asarray(reals, "float32") / np.float32(_number(output_scale, "output_scale"))
        # Halves go away from zero, as qnn.quantize has them.
        rounded = np.nan_to_num(np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5)), posinf=2e9, neginf=-2e9)
    limits = np.iinfo(out_dtype)
    shifted = rounded.astype("float64") + int(_number(output_zero_point, "output zero point"))
    return np.clip(shifted, limits.min, limits.max).astype(out_dtype)


def _number(value: RelayExpr, name: str) -> float:
    if not isinstance(value, Constant) or value.data.numpy().size != 1:
        raise UnsupportedOperatorError(f"a lookup table needs one constant number as its {name}")
    return value.data.numpy().item()


def create_integer_lookup_op(
    input_arg: RelayExpr,
    floating_point_func: Function1,
    in_scale: RelayExpr,
    in_zero_point: RelayExpr,
    out_scale: RelayExpr,
    out_zero_point: RelayExpr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> RelayExpr:
    """Return a quantised function of a quantised tensor: each element is looked up.

    Parameters
    ----------
    input_arg : Expr
        A tensor of `in_dtype`, of any shape; the result has the same.
    floating_point_func, in_scale, in_zero_point, out_scale, out_zero_point, in_axis, out_axis, in_dtype, out_dtype
        As for :func:`create_integer_lookup_table`, and its errors.
    """
    parameters = in_scale, in_zero_point, out_scale, out_zero_point
    table = create_integer_lookup_table(floating_point_func, *parameters, in_axis, out_axis, in_dtype, out_dtype)
    unsigned = f"uint{np.iinfo(in_dtype).bits}"
    index = input_arg if in_dtype == unsigned else build("reinterpret", input_arg, dtype=unsigned)
    return build("take", const(table), index, axis=0, mode="fast")
