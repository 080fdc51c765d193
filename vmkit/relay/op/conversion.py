"""One number of a kernel converted to another element type, those included that are stored as others."""

from __future__ import annotations

from tvm import tirx

from ...values.element_types import small_integer_bits
from .small_float import SMALL_FLOATS, exponent_from_float, float_from_exponent

__all__ = ["ROUND_MODES", "converted"]

ROUND_MODES = ("up", "down", "nearest")
_EXPONENT = "float8_e8m0fnu"


def converted(
    value: tirx.Expr, source: str, target: str, *, saturate: bool = True, round_mode: str = "up"
) -> tirx.Expr:
    """Return a stored element of one type as that of another.

    Parameters
    ----------
    value
        The element, of the type that `source` is stored as.
    source, target
        The element types.
    saturate
        Whether a number beyond a small float's becomes the largest of them.
    round_mode
        How ``float8_e8m0fnu`` rounds: see :data:`ROUND_MODES`.
    """
    if source == target:
        return value
    if source in SMALL_FLOATS:
        value = SMALL_FLOATS[source].read(value)
    elif source == _EXPONENT:
        value = float_from_exponent(value)
    bits = small_integer_bits(target)
    if target in SMALL_FLOATS:
        return SMALL_FLOATS[target].write(_as_float32(value), saturate=saturate)
    if target == _EXPONENT:
        return exponent_from_float(value.astype("float32"), saturate=saturate, round_mode=round_mode)
    if bits is not None:
        return _wrapped(value, bits, is_signed=target.startswith("int"))
    if target == "bool":
        return _is_true(value)
    if target == "bfloat16" and str(value.ty.dtype).startswith("float"):
        value = _with_plain_nan(value.astype("float32"))
    if target == "float16" and str(value.ty.dtype) == "float64":
        value = _as_float32(value)  # processors convert no float64 to it: LLVM would call a function for each
    return value.astype(target)


def _is_true(value: tirx.Expr) -> tirx.Expr:
    """Say whether a number is not 0; by its bits, because to LLVM what is not a number does not differ from 0."""
    dtype = str(value.ty.dtype)
    if not dtype.startswith(("float", "bfloat")):
        return value != tirx.const(0, dtype)
    if dtype == "bfloat16":
        # Where a kernel computes the number, it is a float32 already, whose bits cannot be read as half as many.
        value, dtype = value.astype("float32"), "float32"
    bits = f"uint{dtype.removeprefix('float')}"
    return (tirx.reinterpret(bits, value) << tirx.const(1, bits)) != tirx.const(0, bits)


def _with_plain_nan(value: tirx.Expr) -> tirx.Expr:
    """Return a float32 that is the plain one where it is not a number: TVM would round others to a zero."""
    bits = tirx.reinterpret("uint32", value)
    is_nan = (bits & tirx.const(0x7FFFFFFF, "uint32")) > tirx.const(0x7F800000, "uint32")
    plain = (bits & tirx.const(0x80000000, "uint32")) | tirx.const(0x7FC00000, "uint32")
    return tirx.reinterpret("float32", tirx.Select(is_nan, plain, bits))


def _as_float32(value: tirx.Expr) -> tirx.Expr:
    """Return a number as a float32 that rounds further as the number itself does."""
    if str(value.ty.dtype) != "float64":
        return value.astype("float32")
    # What float32 has no bits for is gathered in its last one, so that no number seems to lie halfway.
    bits = tirx.reinterpret("uint64", value)
    lost, last = tirx.const((1 << 29) - 1, "uint64"), tirx.const(1 << 29, "uint64")
    zero = tirx.const(0, "uint64")
    kept = (bits - (bits & lost)) | tirx.Select((bits & lost) != zero, last, zero)
    return tirx.reinterpret("float64", kept).astype("float32")


def _wrapped(value: tirx.Expr, bits: int, *, is_signed: bool) -> tirx.Expr:
    """Return the lowest bits of a number's integer."""
    low = value.astype("int32") & tirx.const((1 << bits) - 1, "int32")
    if not is_signed:
        return low.astype("uint8")
    sign = tirx.const(1 << (bits - 1), "int32")
    return ((low ^ sign) - sign).astype("int8")
