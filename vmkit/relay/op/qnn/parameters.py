"""Scales and zero points: one number for a whole tensor, or one for every position along an axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Constant, Expr, const
from ...ir.types import Dim, TensorType, Type
from ..axis import resolve_axis
from ..elementwise import require_tensor
from ..registry import build

__all__ = [
    "Parameter",
    "Quantization",
    "require_along_axis",
    "require_dtype",
    "require_one",
    "require_vector",
    "saturated",
    "saturation",
    "shifted",
]

_DTYPES = {"scale": "float32", "zero_point": "int32"}


def _is_one(ty: Type) -> bool:
    return dims.equal(dims.product(ty.shape), 1) is True


def require_dtype(ty: Type, dtypes: Iterable[str], name: str) -> TensorType:
    """Return a tensor type whose data type is one of several; TypeCheckError otherwise."""
    tensor = require_tensor(ty, name)
    if tensor.dtype not in dtypes:
        raise TypeCheckError(f"{name} must be one of {', '.join(dtypes)}, not {tensor.dtype}")
    return tensor


def _require_parameter(ty: Type, name: str) -> TensorType:
    """Return a tensor type that has the data type of a parameter of that name: float32 scales, int32 zero points."""
    tensor = require_tensor(ty, name)
    dtype = next(d for suffix, d in _DTYPES.items() if name.endswith(suffix))
    if tensor.dtype != dtype:
        raise TypeCheckError(f"{name} must be {dtype}, not {tensor.dtype}")
    return tensor


def require_one(**parameters: Type) -> None:
    """Check that scales and zero points, given by name, are one number each."""
    for name, ty in parameters.items():
        if not _is_one(_require_parameter(ty, name)):
            raise TypeCheckError(f"{name} must be one number, not {ty}")


def require_vector(lengths: Iterable[Dim], **parameters: Type) -> None:
    """Check that scales and zero points are one number, or a vector that has one of several lengths."""
    lengths = list(lengths)
    for name, ty in parameters.items():
        tensor = _require_parameter(ty, name)
        if _is_one(tensor):
            continue
        if len(tensor.shape) != 1 or all(dims.equal(tensor.shape[0], length) is False for length in lengths):
            wanted = " or ".join(dict.fromkeys(str(length) for length in lengths))
            raise TypeCheckError(f"{name} must be one number or a vector of {wanted}, not {tensor}")


def require_along_axis(data: TensorType, axis: int, **parameters: Type) -> None:
    """Check that scales and zero points are one number, or one for every position along an axis of the data.

    The axis matters only for vectors.
    """
    vectors = {name: ty for name, ty in parameters.items() if not _is_one(_require_parameter(ty, name))}
    if vectors:
        require_vector([data.shape[resolve_axis(axis, len(data.shape))]], **vectors)


@dataclass(frozen=True)
class Parameter:
    """A scale or a zero point.

    Attributes
    ----------
    value : Expr
        A scalar, or a vector.
    is_one : bool
        Whether it is a scalar.
    """

    value: Expr
    is_one: bool

    @classmethod
    def of(cls, value: Expr, ty: Type) -> Parameter:
        """Return an expression of a checked type as a parameter; one number of any rank becomes a scalar."""
        if not _is_one(ty):
            return cls(value, False)
        if len(ty.shape) == 0:
            return cls(value, True)
        if isinstance(value, Constant):
            return cls(const(value.data.numpy().reshape(())), True)
        return cls(build("squeeze", value), True)

    @property
    def constant(self) -> np.ndarray | None:
        """The value, where it is known at compile time."""
        return self.value.data.numpy() if isinstance(self.value, Constant) else None

    def equals(self, other: Parameter) -> bool:
        """Say whether two parameters are certainly equal."""
        if self.value.same_as(other.value):
            return True
        mine, others = self.constant, other.constant
        return mine is not None and others is not None and np.array_equal(mine, others)

    @property
    def is_zero(self) -> bool:
        """Whether the value is known to be 0 everywhere."""
        return self.constant is not None and not self.constant.any()

    def along(self, axis: int, rank: int) -> Expr:
        """Return the value in a shape that broadcasts against a tensor of a rank, a vector along an axis of it."""
        after = rank - 1 - axis % rank if rank else 0
        if self.is_one or after == 0:
            return self.value
        if self.constant is not None:
            return const(self.constant.reshape(-1, *[1] * after))
        return build("expand_dims", self.value, axis=1, num_newaxis=after)


@dataclass(frozen=True)
class Quantization:
    """How the integers of a tensor stand for reals.

    Attributes
    ----------
    scale, zero_point : Parameter
        The two parameters.
    axis : int
        The axis that they lie along, where they are vectors.
    """

    scale: Parameter
    zero_point: Parameter
    axis: int = -1

    @classmethod
    def of(cls, args: Sequence[Expr], types: Sequence[Type], at: int, axis: int = -1) -> Quantization:
        """Return the quantisation by two arguments of checked types: the scale at a position, then the zero point."""
        scale, zero_point = (Parameter.of(args[k], types[k]) for k in (at, at + 1))
        return cls(scale, zero_point, axis)

    def equals(self, other: Quantization) -> bool:
        """Say whether two quantisations are certainly the same."""
        return self.scale.equals(other.scale) and self.zero_point.equals(other.zero_point)


def shifted(data: Expr, zero_point: Parameter, axis: int, rank: int, dtype: str = "int32") -> Expr:
    """Return integers less their zero point, in a data type that holds the difference."""
    wide = build("cast", data, dtype=dtype)
    if zero_point.is_zero:
        return wide
    offset = zero_point.along(axis, rank)
    return wide - (offset if dtype == "int32" else build("cast", offset, dtype=dtype))


def saturated(data: Expr, dtype: str, source: str = "int32") -> Expr:
    """Return numbers of the data type `source` limited to the range of an integer type, and converted to it."""
    if source == dtype:
        return data
    low, high = saturation(dtype, source)
    return build("cast", build("clip", data, a_min=low, a_max=high), dtype=dtype)


def saturation(dtype: str, source: str) -> tuple[Any, Any]:
    """Return the least and the greatest number of an integer type that `source` can hold too."""
    info = np.iinfo(dtype)
    if not source.startswith("float"):
        return float(info.min), float(info.max)
    # The nearest float32 to 2**31 - 1 is 2**31, which no int32 can hold.
    high = np.dtype(source).type(info.max)
    return float(info.min), float(high if int(high) <= info.max else np.nextafter(high, high.dtype.type(0)))
