"""Elementwise operators of one input: mathematics, rounding, tests, casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import tvm
from tvm import relax, te, tirx, topi

from ...errors import TypeCheckError
from ...values.element_types import is_stored_type, numpy_dtype
from ...values.host_memory import aligned_array
from ..ir.types import TensorType, Type, brief_type_text
from .attrs import Attrs, DType, Float, attrs_node
from .conversion import converted
from .registry import Mixed, OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["EXACT", "check_dtype", "require_tensor", "round_half_away"]

EXACT = frozenset(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"])
"""The data types whose sums, products and quotients numpy rounds, and wraps, as kernels do."""


def require_tensor(ty: Type, name: str = "the input") -> TensorType:
    """Return `ty` if it is a tensor type; TypeCheckError otherwise."""
    if not isinstance(ty, TensorType):
        raise TypeCheckError(f"{name} must be a tensor, not {brief_type_text(ty)}")
    return ty


def _same(attrs: Attrs | None, data: Type) -> Type:
    return require_tensor(data)


def _to_bool(attrs: None, data: Type) -> Type:
    return TensorType(list(require_tensor(data).shape), "bool")


def _unary(
    name: str,
    compute: Callable[[te.Tensor], te.Tensor],
    doc: str,
    *,
    level: int = 1,
    relation: Callable[..., Type] = _same,
    mixed: Mixed | None = None,
    on_arrays: Callable[[np.ndarray], np.ndarray | None] | None = None,
) -> None:
    body = {"__doc__": doc, "relation": staticmethod(relation), "compute": staticmethod(lambda attrs, x: compute(x))}
    if on_arrays is not None:
        body["on_arrays"] = staticmethod(lambda attrs, x: on_arrays(x))
    operator(name, "data", level=level, pattern=OpPattern.ELEMWISE, mixed=mixed)(type(name, (), body))


def _wide(compute: Callable[[te.Tensor], te.Tensor]) -> Callable[[te.Tensor], te.Tensor]:
    """Return a function that is computed in float32 for float16: LLVM and libm have none of 16 bits."""
    return lambda x: topi.cast(compute(topi.cast(x, "float32")), x.dtype) if str(x.dtype) == "float16" else compute(x)


def round_half_away(value: tirx.Expr) -> tirx.Expr:
    """Return a number of a kernel rounded to the nearest integer, halves away from zero: TVM's round goes to even.

    The fraction is exact, unlike a sum with a half: the greatest number below a half is rounded to 0.
    """
    whole = tirx.trunc(value)
    fraction, one = value - whole, tirx.const(1, value.ty.dtype)
    return tirx.Select(fraction >= one / 2, whole + one, tirx.Select(fraction <= -one / 2, whole - one, whole))


def _round(x: te.Tensor) -> te.Tensor:
    if not str(x.dtype).startswith(("float", "bfloat")):
        return topi.identity(x)
    return te.compute(x.shape, lambda *i: round_half_away(x(*i)))


def _round_to_even(x: te.Tensor) -> te.Tensor:
    if not str(x.dtype).startswith(("float", "bfloat")):
        return topi.identity(x)
    wide = topi.cast(x, "float32") if str(x.dtype) in ("float16", "bfloat16") else x
    return topi.cast(te.compute(x.shape, lambda *i: tirx.nearbyint(wide(*i))), x.dtype)


def _test(compute: Callable[[te.Tensor], te.Tensor]) -> Callable[[te.Tensor], te.Tensor]:
    """Return a test that looks at bfloat16 as float32, which has the same special values."""
    return lambda x: compute(topi.cast(x, "float32") if str(x.dtype) == "bfloat16" else x)


def _sign(x: te.Tensor) -> te.Tensor:
    """What is neither positive nor negative, 0 and NaN, stays; unsigned integers have no -1 to choose from."""
    zero, one = tirx.const(0, x.dtype), tirx.const(1, x.dtype)

    def element(*i: tirx.Expr) -> tirx.Expr:
        value = x(*i)
        rest = value if str(x.dtype).startswith("uint") else tirx.Select(value < zero, -one, value)
        return tirx.Select(value > zero, one, rest)

    return te.compute(x.shape, element, name="sign")


def _negated(x: np.ndarray) -> np.ndarray | None:
    return -x if x.dtype.name in EXACT else None


def _root(x: np.ndarray) -> np.ndarray | None:
    with np.errstate(invalid="ignore"):
        return np.sqrt(x) if x.dtype in ("float32", "float64") else None


_unary("abs", topi.abs, "Absolute value.", level=3)
_unary("acos", _wide(topi.acos), "Inverse cosine.")
_unary("acosh", _wide(topi.acosh), "Inverse hyperbolic cosine.")
_unary("asin", _wide(topi.asin), "Inverse sine.")
_unary("asinh", _wide(topi.asinh), "Inverse hyperbolic sine.")
_unary("atan", _wide(topi.atan), "Inverse tangent.")
_unary("atanh", _wide(topi.atanh), "Inverse hyperbolic tangent.")
_unary("bitwise_not", topi.bitwise_not, "Bitwise complement.", level=4)
_unary("ceil", topi.ceil, "Round up.", level=3)
_unary("contrib_round_to_even", _round_to_even, "Round to the nearest integer, halves to even.", level=3)
_unary("copy", topi.identity, "A copy of the input.", level=3, mixed="follow", on_arrays=lambda x: x)
_unary("cos", topi.cos, "Cosine.")
_unary("cosh", _wide(topi.cosh), "Hyperbolic cosine.")
_unary("erf", _wide(topi.erf), "Gauss error function.", mixed="never")
_unary("exp", topi.exp, "Exponential.", mixed="never")
_unary("floor", topi.floor, "Round down.", level=3)
_unary("isfinite", _test(topi.isfinite), "Whether each element is finite.", level=3, relation=_to_bool)
_unary("isinf", _test(topi.isinf), "Whether each element is infinite.", level=3, relation=_to_bool)
_unary("isnan", _test(topi.isnan), "Whether each element is not a number.", level=3, relation=_to_bool)
_unary("log", topi.log, "Natural logarithm.")
_unary("log10", topi.log10, "Logarithm to base 10.")
_unary("log2", topi.log2, "Logarithm to base 2.")
_unary("logical_not", topi.logical_not, "Logical complement.", level=4)
_unary("negative", topi.negative, "Negation.", level=3, on_arrays=_negated)
_unary("round", _round, "Round to the nearest integer, halves away from zero.", level=3)
_unary("rsqrt", topi.rsqrt, "Reciprocal of the square root.")
_unary("sigmoid", topi.sigmoid, "Logistic function.", mixed="follow")
_unary("sign", _sign, "Sign.", level=3)
_unary("sin", topi.sin, "Sine.")
_unary("sinh", _wide(topi.sinh), "Hyperbolic sine.")
_unary("sqrt", topi.sqrt, "Square root.", mixed="follow", on_arrays=_root)
_unary("tan", topi.tan, "Tangent.")
_unary("tanh", topi.tanh, "Hyperbolic tangent.", mixed="follow")
_unary("trunc", topi.trunc, "Round towards zero.", level=3)


@attrs_node("relay.attrs.CastAttrs")
class CastAttrs(Attrs):
    """Attributes of cast."""

    dtype: DType


@operator("cast", "data", attrs=CastAttrs, level=3, pattern=OpPattern.ELEMWISE, mixed="follow")
class Cast:
    """The input converted to another data type; a float to an integer rounds towards zero."""

    @staticmethod
    def relation(attrs: CastAttrs, data: Type) -> Type:
        check_dtype(attrs.dtype, require_tensor(data).dtype)
        return TensorType(list(require_tensor(data).shape), attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: CastAttrs, data: relax.Expr) -> relax.Expr:
        return _cast(context, data, context.types[0].dtype, attrs.dtype)

    @staticmethod
    def on_arrays(attrs: CastAttrs, data: np.ndarray) -> np.ndarray | None:
        # Not those of which processors or TVM have their own idea: floats too large for an integer, what is true, the
        # bits of what is no number.
        is_rounded = data.dtype.kind == "f" and not attrs.dtype.startswith("float")
        is_widened = data.dtype == "float16" and attrs.dtype in ("float32", "float64") and not np.isnan(data).any()
        if not is_widened and (not {data.dtype.name, attrs.dtype} <= EXACT or is_rounded):
            return None
        if data.dtype == attrs.dtype:
            return data
        # As a constant it is read where it lies; elsewhere it would be copied, and be there twice.
        made = aligned_array(data.shape, np.dtype(attrs.dtype))
        with np.errstate(over="ignore"):
            made[...] = data
        return made


def check_dtype(dtype: str, source: str) -> None:
    """Raise TypeCheckError unless there is a data type that numbers of another one can be converted to."""
    try:
        numpy_dtype(dtype)
    except TypeError:
        raise TypeCheckError(f"{dtype!r} is no data type") from None
    if dtype != source and "string" in (dtype, source):
        raise TypeCheckError(f"a cast does not convert {source} to {dtype}")


def _cast(context: LowerContext, data: relax.Expr, source: str, target: str) -> relax.Expr:
    """Return a lowered tensor of an element type as one of another."""
    is_plain = not (is_stored_type(source) or is_stored_type(target)) and (source, target) != ("float64", "float16")
    if is_plain:
        return context.te(lambda tensor: topi.cast(tensor, target), data)

    def compute(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *i: converted(tensor(*i), source, target), name="cast")

    return context.te(compute, data)


@operator("reinterpret", "data", attrs=CastAttrs, level=3, pattern=OpPattern.ELEMWISE)
class Reinterpret:
    """The bits of the input read as another data type of the same width."""

    @staticmethod
    def relation(attrs: CastAttrs, data: Type) -> Type:
        check_dtype(attrs.dtype, require_tensor(data).dtype)
        result = TensorType(list(require_tensor(data).shape), attrs.dtype)
        if _bits(require_tensor(data).dtype) != _bits(attrs.dtype):
            raise TypeCheckError(
                f"{data.dtype} and {attrs.dtype} differ in width; reinterpret keeps the bits as they are"
            )
        return result

    @staticmethod
    def compute(attrs: CastAttrs, data: te.Tensor) -> te.Tensor:
        return topi.reinterpret(data, attrs.dtype)


def _bits(dtype: str) -> int:
    return 8 if dtype == "bool" else tvm.DataType(dtype).bits


@operator("cast_like", "data", "dtype_like", level=3, pattern=OpPattern.ELEMWISE, mixed="follow")
class CastLike:
    """The input converted to the data type of another tensor."""

    @staticmethod
    def relation(attrs: None, data: Type, dtype_like: Type) -> Type:
        dtype = require_tensor(dtype_like, "dtype_like").dtype
        check_dtype(dtype, require_tensor(data).dtype)
        return TensorType(list(require_tensor(data).shape), dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr, dtype_like: relax.Expr) -> relax.Expr:
        return _cast(context, data, *(t.dtype for t in context.types))


@attrs_node("relay.attrs.ClipAttrs")
class ClipAttrs(Attrs):
    """Attributes of clip."""

    a_min: Float
    a_max: Float


@operator("clip", "a", attrs=ClipAttrs, level=3, pattern=OpPattern.ELEMWISE, mixed="follow")
class Clip:
    """The input limited to the range from a_min to a_max, as far as its data type reaches."""

    relation = staticmethod(_same)

    @staticmethod
    def compute(attrs: ClipAttrs, a: te.Tensor) -> te.Tensor:
        dtype = str(a.dtype)
        least, most = (limit(dtype).value for limit in (tirx.min_value, tirx.max_value))
        if least <= attrs.a_min <= most and least <= attrs.a_max <= most:
            low, high = tirx.const(attrs.a_min, dtype), tirx.const(attrs.a_max, dtype)
            # The limits come first, so that NaN stays NaN.
            return te.compute(a.shape, lambda *i: tirx.max(low, tirx.min(high, a(*i))), name="clip")

        def element(*index: tirx.Expr) -> tirx.Expr:
            # A bound that the data type cannot hold limits nothing, or, on the other side, everything.
            value = a(*index)
            if attrs.a_max < most:
                value = tirx.min(tirx.const(max(attrs.a_max, least), dtype), value)
            if attrs.a_min > least:
                value = tirx.max(tirx.const(min(attrs.a_min, most), dtype), value)
            return value

        return te.compute(a.shape, element, name="clip")
