"""Numbers of kernels to and from the bits of floats of 8 bits and fewer, by arithmetic on integers.

Every number of a small float is one of float32, so reading is exact. Writing rounds once, to the nearest and to even
halfway. Sources: the OCP specifications of 8-bit floats (OFP8) and of microscaling formats (MX) 1.0, and for the
types that end in ``fnuz`` https://arxiv.org/abs/2206.02915.
"""

from __future__ import annotations

from tvm import tirx

from ..._dataclasses import dataclass

__all__ = ["SMALL_FLOATS", "SmallFloat", "exponent_from_float", "float_from_exponent"]

_FRACTION = 23  # bits of float32's
_BIAS = 127
_INFINITY = 0x7F800000
_SIGN = 0x80000000


@dataclass(frozen=True)
class SmallFloat:
    """A format of sign, exponent and fraction.

    Parameters
    ----------
    exponent, fraction
        The bits of both.
    bias
        What the exponent is larger by than that of the number.
    largest
        The bits of the largest finite number.
    nan
        The bits of what is not a number, the sign left out; -1 where there is none.
    infinity
        The bits of infinity; those of `nan` where there is none, of `largest` where there is neither.
    is_unsigned_zero
        Whether there is one zero, and the bits of the other are what is not a number.
    """

    exponent: int
    fraction: int
    bias: int
    largest: int
    nan: int
    infinity: int
    is_unsigned_zero: bool = False

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.exponent + self.fraction)

    def read(self, code: tirx.Expr) -> tirx.Expr:
        """Return the float32 whose bits a uint8 of a kernel holds."""
        bits = code.astype("uint32")
        size = bits & _u32(self.sign - 1)
        shift = _FRACTION - self.fraction
        normal = (size << _u32(shift)) + _u32((_BIAS - self.bias) << _FRACTION)
        small = _bits(size.astype("float32") * tirx.const(2.0 ** (1 - self.bias - self.fraction), "float32"))
        value = tirx.Select(size < _u32(1 << self.fraction), small, normal)
        not_a_number = _u32(_INFINITY | 1 << (_FRACTION - 1))
        if self.infinity not in (self.nan, self.largest):
            value = tirx.Select(size == _u32(self.infinity), _u32(_INFINITY), value)
            value = tirx.Select(size > _u32(self.infinity), not_a_number, value)
        elif self.nan == self.sign - 1:
            value = tirx.Select(size == _u32(self.nan), not_a_number, value)
        value = value | ((bits & _u32(self.sign)) << _u32(31 - self.exponent - self.fraction))
        if self.is_unsigned_zero:
            value = tirx.Select(bits == _u32(self.sign), not_a_number | _u32(_SIGN), value)
        return _float(value)

    def write(self, value: tirx.Expr, *, saturate: bool) -> tirx.Expr:
        """Return, as a uint8, the bits of a float32 of a kernel rounded to this format.

        What is too large becomes the largest number with `saturate`, and else infinity, or no number where there is
        none.
        """
        bits = _bits(value)
        size = bits & _u32(_SIGN - 1)
        shift = _FRACTION - self.fraction
        to_even = (size >> _u32(shift)) & _u32(1)
        rounded = (size + _u32((1 << (shift - 1)) - 1) + to_even) >> _u32(shift)
        least = (1 + _BIAS - self.bias) << _FRACTION
        # Of numbers below, a float with the last bit in the right place does the rounding.
        anchor = tirx.const(2.0 ** (1 - self.bias - self.fraction + _FRACTION), "float32")
        small = _bits(_float(tirx.min(size, _u32(least))) + anchor) - _bits(anchor)
        normal = rounded - _u32((_BIAS - self.bias) << self.fraction)
        code = tirx.Select(size < _u32(least), small, normal)
        code = tirx.Select(
            tirx.any(size >= _u32(_INFINITY), tirx.all(size >= _u32(least), code > _u32(self.largest))),
            _u32(self.largest if saturate else self.infinity),
            code,
        )
        is_nan = size > _u32(_INFINITY)
        sign = (bits & _u32(_SIGN)) >> _u32(31 - self.exponent - self.fraction)
        if self.is_unsigned_zero:
            signed = tirx.Select(tirx.any(code == _u32(0), code == _u32(self.nan)), code, code | sign)
            return tirx.Select(is_nan, _u32(self.nan), signed).astype("uint8")
        if self.nan < 0:
            # Without a code for what is no number it becomes a zero of the other sign, as ml_dtypes has it.
            return tirx.Select(is_nan, sign ^ _u32(self.sign), code | sign).astype("uint8")
        return (tirx.Select(is_nan, _u32(self.nan), code) | sign).astype("uint8")


SMALL_FLOATS = {
    "float4_e2m1fn": SmallFloat(2, 1, bias=1, largest=0x7, nan=-1, infinity=0x7),
    "float6_e2m3fn": SmallFloat(2, 3, bias=1, largest=0x1F, nan=-1, infinity=0x1F),
    "float6_e3m2fn": SmallFloat(3, 2, bias=3, largest=0x1F, nan=-1, infinity=0x1F),
    "float8_e4m3fn": SmallFloat(4, 3, bias=7, largest=0x7E, nan=0x7F, infinity=0x7F),
    "float8_e4m3fnuz": SmallFloat(4, 3, bias=8, largest=0x7F, nan=0x80, infinity=0x80, is_unsigned_zero=True),
    "float8_e5m2": SmallFloat(5, 2, bias=15, largest=0x7B, nan=0x7E, infinity=0x7C),
    "float8_e5m2fnuz": SmallFloat(5, 2, bias=16, largest=0x7F, nan=0x80, infinity=0x80, is_unsigned_zero=True),
}
"""The formats with sign and fraction, by the name of their element type."""


def float_from_exponent(code: tirx.Expr) -> tirx.Expr:
    """Return the float32 that a uint8 of a kernel stands for as ``float8_e8m0fnu``: a power of 2, or no number."""
    bits = code.astype("uint32")
    power = tirx.Select(bits == _u32(0), _u32(1 << (_FRACTION - 1)), bits << _u32(_FRACTION))
    return _float(tirx.Select(bits == _u32(0xFF), _u32(_INFINITY | 1 << (_FRACTION - 1)), power))


def exponent_from_float(value: tirx.Expr, *, saturate: bool, round_mode: str) -> tirx.Expr:
    """Return, as a uint8, the ``float8_e8m0fnu`` of the size of a float32: its exponent, rounded.

    Parameters
    ----------
    value
        The number; infinity gives what is not a number, as in ONNX's reference implementation.
    saturate
        Whether the largest power is the result where rounding goes beyond.
    round_mode
        ``"up"``, ``"down"``, or ``"nearest"``, which rounds up halfway.
    """
    size = _bits(value) & _u32(_SIGN - 1)
    exponent, fraction = size >> _u32(_FRACTION), size & _u32((1 << _FRACTION) - 1)
    half = _u32(1 << (_FRACTION - 1))
    # Numbers below 2**-126 have no exponent of their own: half of that is the smallest power.
    nearest = tirx.any(fraction > half, tirx.all(fraction == half, exponent > _u32(0)))
    goes_up = {"up": fraction > _u32(0), "nearest": nearest, "down": tirx.const(False)}[round_mode]
    if saturate:
        goes_up = tirx.all(goes_up, exponent != _u32(0xFE))
    rounded = tirx.Select(goes_up, exponent + _u32(1), exponent)
    return tirx.Select(exponent == _u32(0xFF), _u32(0xFF), rounded).astype("uint8")


def _bits(value: tirx.Expr) -> tirx.Expr:
    return tirx.reinterpret("uint32", value)


def _float(bits: tirx.Expr) -> tirx.Expr:
    return tirx.reinterpret("float32", bits)


def _u32(value: int) -> tirx.Expr:
    return tirx.const(value, "uint32")
