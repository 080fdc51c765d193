"""What operators that compare make of a number that is none (NaN), which is neither less, equal nor greater.

- What gives an element for each element passes NaN on: relu, clip, sign, maximum and minimum, and what is made of them,
  as numpy and onnxruntime do.
- What looks for an extreme among elements (max, min, argmax, argmin, global_max_pool) looks among the numbers, as
  onnxruntime does but where NaN happens to come first; where there are none but NaN, the extreme is infinite and its
  position the first.
- What sorts (sort, argsort, topk) has NaN as greater than every number, as numpy and onnxruntime do.
- Pools with windows keep NaN where it is the last of a window and lose it elsewhere, as onnxruntime's do.
- NaN is not equal to anything: not_equal is true of it, every other comparison is not; as a truth value it is true.

The larger of two numbers is one instruction, which gives its second operand where one is NaN. So a limit comes first.
"""

from __future__ import annotations

from tvm import tirx

__all__ = ["first_largest", "first_smallest", "has_nan", "is_nan", "is_number", "larger", "smaller"]


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


def larger(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Return the larger of two numbers of a kernel, NaN if one of them is."""
    return _either(a > b, a <= b, a, b) if has_nan(str(a.ty.dtype)) else tirx.max(a, b)


def smaller(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Return the smaller of two numbers of a kernel, NaN if one of them is."""
    return _either(a < b, a >= b, a, b) if has_nan(str(a.ty.dtype)) else tirx.min(a, b)


def _either(takes_a: tirx.Expr, takes_b: tirx.Expr, a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    # Of two that do not compare, one is NaN, and so is their sum.
    return tirx.Select(takes_a, a, tirx.Select(takes_b, b, a + b))


def first_largest(so_far: tirx.Expr, value: tirx.Expr) -> tirx.Expr:
    """Return the larger of what was found so far and a further number, which is passed over if it is NaN."""
    return tirx.max(value, so_far)


def first_smallest(so_far: tirx.Expr, value: tirx.Expr) -> tirx.Expr:
    """Return the smaller of what was found so far and a further number, which is passed over if it is NaN."""
    return tirx.min(value, so_far)
