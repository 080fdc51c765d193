"""What operators that compare make of a number that is none (NaN), which is neither less, equal nor greater.

- What gives an element for each element passes NaN on: relu, clip, sign, maximum and minimum, and what is made of them,
  as numpy and onnxruntime do.
- What looks for an extreme among elements (max, min, argmax, argmin, global_max_pool) looks among the numbers, as
  onnxruntime does but where NaN happens to come first; where there are none but NaN, the extreme is infinite and its
  position the first.
- What sorts (sort, argsort, topk) has NaN as greater than every number, as numpy and onnxruntime do.
- Pools with windows keep NaN where it is the last of a window and lose it elsewhere, as onnxruntime's do.
- NaN is not equal to anything: not_equal is true of it, every other comparison is not; as a truth value it is true.

The larger of two numbers is one instruction, which gives its second operand where one is NaN. So a limit, which is a
number, comes first; of two that may both be NaN, the first is looked at besides.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, te, tirx

__all__ = [
    "first_largest",
    "first_smallest",
    "floats_of_keys",
    "has_nan",
    "holds_numbers",
    "is_nan",
    "is_number",
    "keys_of_floats",
    "larger",
    "smaller",
]

_KEYS = {"float32": "int32", "float64": "int64"}


def has_nan(dtype: str) -> bool:
    """Tell whether numbers of a data type may be none."""
    return dtype.startswith(("float", "bfloat"))


def is_nan(value: tirx.Expr) -> tirx.Expr:
    """Return whether a number of a kernel is none; of integers none is."""
    dtype = str(value.ty.dtype)
    if not has_nan(dtype):
        return tirx.const(False, "bool")
    return tirx.isnan(value if dtype in ("float16", "float32", "float64") else value.astype("float32"))


def is_number(value: tirx.Expr) -> tirx.Expr:
    """Return whether a number of a kernel is one."""
    dtype = str(value.ty.dtype)
    return value <= tirx.infinity(dtype) if has_nan(dtype) else tirx.const(True, "bool")


def holds_numbers(value: relax.Expr) -> bool:
    """Tell whether a lowered tensor is a constant none of whose elements is NaN."""
    return isinstance(value, tvm.ir.GenericConst) and not (
        has_nan(str(value.ty.dtype)) and np.isnan(value.value.numpy()).any()
    )


def larger(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Return the larger of two numbers of a kernel, NaN if one of them is."""
    return _first_if(a > b, a, b) if has_nan(str(a.ty.dtype)) else tirx.max(a, b)


def smaller(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Return the smaller of two numbers of a kernel, NaN if one of them is."""
    return _first_if(a < b, a, b) if has_nan(str(a.ty.dtype)) else tirx.min(a, b)


def _first_if(is_first: tirx.Expr, a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Return the first of two numbers where that is so, or where it is NaN, the second one elsewhere.

    The condition reads both: LLVM makes no vectors of what is read in one case alone.
    """
    return tirx.Select(tirx.Or(is_nan(a), is_first), a, b)


def first_largest(so_far: tirx.Expr, value: tirx.Expr) -> tirx.Expr:
    """Return the larger of what was found so far and a further number, which is passed over if it is NaN."""
    return tirx.max(value, so_far)


def first_smallest(so_far: tirx.Expr, value: tirx.Expr) -> tirx.Expr:
    """Return the smaller of what was found so far and a further number, which is passed over if it is NaN."""
    return tirx.min(value, so_far)


def keys_of_floats(data: te.Tensor) -> te.Tensor:
    """Return integers in the order of floats, NaN the greatest: what compares has no order for NaN.

    The bits of a float that is not negative are in its order as they are; of others, all but the sign are turned.
    """
    integer = _KEYS[str(data.dtype)]

    def element(*index: tirx.Expr) -> tirx.Expr:
        value = data(*index)
        key = _turned(tirx.reinterpret(integer, value))
        number = tirx.Select(value == tirx.const(0, data.dtype), tirx.const(0, integer), key)
        return tirx.Select(is_nan(value), tirx.max_value(integer), number)

    return te.compute(data.shape, element, name="key")


def floats_of_keys(keys: te.Tensor, dtype: str) -> te.Tensor:
    """Return the floats whose place in the order integers are."""
    return te.compute(keys.shape, lambda *i: tirx.reinterpret(dtype, _turned(keys(*i))), name="value")


def _turned(bits: tirx.Expr) -> tirx.Expr:
    integer = str(bits.ty.dtype)
    return bits ^ ((bits >> tirx.const(int(integer[3:]) - 1, integer)) & tirx.max_value(integer))
