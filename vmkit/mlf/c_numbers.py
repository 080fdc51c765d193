"""Numbers in C99: their types in memory and in expressions, constants of them, and float16, which C has no type of."""

from __future__ import annotations

import math

import numpy as np

from ..errors import CompileError

__all__ = [
    "C_TYPES",
    "HALF_FUNCTIONS",
    "HALF_NEEDS",
    "ROUNDED",
    "c_type",
    "element_words",
    "is_half",
    "number_text",
    "value_type",
]

C_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""What elements are in memory; those of float16 are their bits."""

# What has less range than the smallest number of 11 bits is a multiple of 2^-24, and adding 0.5 rounds it to that.
HALF_FUNCTIONS = {
    "float_of_half": """static inline float float_of_half(uint16_t half) {
#if defined(__FLT16_MAX__)
  _Float16 value;
  memcpy(&value, &half, sizeof value);
  return (float)value;
#else
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 0x3FF;
  uint32_t bits = sign | (exponent == 31 ? 0x7F800000 : (exponent + 112) << 23) | fraction << 13;
  float value = (float)fraction * 5.9604645e-08f;
  if (exponent == 0) {
    return sign ? -value : value;
  }
  memcpy(&value, &bits, sizeof value);
  return value;
#endif
}""",
    "half_of_float": """static inline uint16_t half_of_float(float value) {
#if defined(__FLT16_MAX__)
  const _Float16 rounded = (_Float16)value;
  uint16_t half;
  memcpy(&half, &rounded, sizeof half);
  return half;
#else
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
  if (size > 0x7F800000) {
    return (uint16_t)(sign | 0x7E00 | (size >> 13 & 0x1FF));
  }
  if (size >= 0x477FF000) {
    return (uint16_t)(sign | 0x7C00);
  }
  if (size >= 0x38800000) {
    return (uint16_t)(sign | (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13);
  }
  value = fabsf(value) + 0.5f;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(sign | (bits - 0x3F000000));
#endif
}""",
    "rounded_to_half": """static inline float rounded_to_half(float value) {
  return float_of_half(half_of_float(value));
}""",
    # Rounding twice could end elsewhere than rounding once, but for a first step to the odd one of two neighbours.
    "half_of_double": """static inline float half_of_double(double value) {
  float nearest = (float)value;
  uint32_t bits;
  if (isfinite(nearest) && (double)nearest != value) {
    memcpy(&bits, &nearest, sizeof bits);
    bits = (bits - (fabs((double)nearest) > fabs(value))) | 1;
    memcpy(&nearest, &bits, sizeof nearest);
  }
  return rounded_to_half(nearest);
}""",
}
"""Inline functions between the bits of float16 and float, by name."""

HALF_NEEDS = {
    "rounded_to_half": ("float_of_half", "half_of_float"),
    "half_of_double": ("float_of_half", "half_of_float", "rounded_to_half"),
}
"""The functions that one of them calls, in their order."""

# Between 2^23 and 2^24 floats are whole numbers: adding the former rounds, as far as a sum is rounded to float at all.
ROUNDED = """static inline float rounded_float32(float value) {
#if FLT_EVAL_METHOD != 0 || defined(__FAST_MATH__) || defined(__ARM_FEATURE_DIRECTED_ROUNDING) || defined(__SSE4_1__)
  return nearbyintf(value);
#else
  const float size = fabsf(value);
  return size < 8388608.0f ? copysignf(size + 8388608.0f - 8388608.0f, value) : value;
#endif
}"""
"""A function for processors without an instruction that rounds, whose ``nearbyintf`` is a long call."""


def is_half(dtype: str) -> bool:
    """Say whether numbers of a data type are computed as float and rounded."""
    return dtype == "float16"


def c_type(dtype: str) -> str:
    """Return the type of elements in memory; CompileError where C has none."""
    if dtype not in C_TYPES:
        raise CompileError(f"C has no elements of {dtype}; it has {', '.join(C_TYPES)}")
    return C_TYPES[dtype]


def value_type(dtype: str) -> str:
    """Return the type of numbers in expressions; CompileError where C has none."""
    return "float" if is_half(dtype) else c_type(dtype)


def float_text(value: float, dtype: str) -> str:
    """Return a number as C reads it back without a change, but for the bits of a NaN."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "-INFINITY" if value < 0 else "INFINITY"
    if is_half(dtype):
        return f"{np.float32(np.float16(value))!s}f"
    return f"{np.float32(value)!s}f" if dtype == "float32" else repr(float(value))


def int_text(value: int, dtype: str) -> str:
    """Return an integer constant of C of a data type."""
    if dtype == "uint64":
        return f"{value}ULL"
    if dtype == "int64":
        return "(-9223372036854775807LL - 1)" if value == -(1 << 63) else f"{value}LL"
    if dtype == "uint32":
        return f"{value}u"
    return "(-2147483647 - 1)" if value == -(1 << 31) else str(value)


def number_text(value: int | float, dtype: str) -> str:
    """Return a constant of C of a data type."""
    return float_text(float(value), dtype) if dtype.startswith("float") else int_text(int(value), dtype)


def element_words(values: np.ndarray, dtype: str) -> list[str]:
    """Return the elements of an array of constants as C has them in memory."""
    made = values.ravel().astype(dtype)
    if is_half(dtype):
        return [int_text(bits, "uint16") for bits in made.view("uint16").tolist()]
    return [number_text(value, dtype) for value in made.tolist()]
