"""What the rules ask of affine types, and how they make new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from ....errors import UnsupportedOperatorError
from ...ir import (
    AffineType,
    Call,
    Constant,
    RelayExpr,
    TensorAffineType,
    TupleAffineType,
    const,
    dims,
)
from ...op.registry import build
from ..fold_constant import FoldConstantExpr
from ..known_type import type_of

__all__ = [
    "TypeMap",
    "affine_equal",
    "approx_equal",
    "attributes",
    "fold_constant",
    "get_zeros",
    "is_per_tensor",
    "is_zero",
    "rank_of",
    "requantized",
    "require_per_tensor",
    "same_axis",
    "with_scale",
]


class TypeMap(Mapping[Any, Any]):
    """The affine types of expressions, and for calls those that their results should have."""

    def __init__(self) -> None:
        self._found: dict[Any, AffineType] = {}
        self._wanted: dict[Any, AffineType] = {}

    def __getitem__(self, expr: RelayExpr) -> Any:  # noqa: ANN401 - of a tensor, or of a tuple
        return self._found[expr] if expr in self._found else self._wanted[expr]

    def __iter__(self) -> Iterator[RelayExpr]:
        yield from {**self._wanted, **self._found}

    def __len__(self) -> int:
        return len({**self._wanted, **self._found})

    def want(self, expr: RelayExpr, ty: AffineType) -> None:
        """Say which type the result of a call should have."""
        self._wanted[expr] = ty

    def find(self, expr: RelayExpr, ty: AffineType) -> None:
        """Note the type of an expression.

        Raises
        ------
        UnsupportedOperatorError
            When it is known with another: one tensor of integers that is dequantized in two ways.
        """
        known = self._found.setdefault(expr, ty)
        if not known.same_as(ty) and not affine_equal(known, ty):
            raise UnsupportedOperatorError("one tensor of integers stands for different reals in the same region")


def fold_constant(expr: RelayExpr) -> RelayExpr:
    """Return an expression, a constant where it depends on constants alone."""
    return expr if isinstance(expr, Constant) else FoldConstantExpr(expr, tvm.IRModule({}))


def get_zeros(scale: RelayExpr) -> RelayExpr:
    """Return zero points of 0, as many as there are scales."""
    if isinstance(scale, Constant):
        return const(np.zeros(tuple(scale.data.shape), "int32"))
    return build("cast", build("zeros_like", scale), dtype="int32")


def approx_equal(x: RelayExpr, y: RelayExpr) -> bool:
    """Say whether two parameters are the same, but for rounding: constants by value, others by structure."""
    x, y = fold_constant(x), fold_constant(y)
    if not (isinstance(x, Constant) and isinstance(y, Constant)):
        return bool(tvm_ffi.structural_equal(x, y))
    left, right = x.data.numpy(), y.data.numpy()
    if left.size != 1 and right.size != 1 and left.shape != right.shape:
        return False
    return bool(np.allclose(left, right, rtol=1e-5, atol=0))


def affine_equal(x: AffineType, y: AffineType) -> bool:
    """Say whether two affine types are the same, but for rounding; axes matter for vectors alone."""
    if isinstance(x, TupleAffineType) or isinstance(y, TupleAffineType):
        return bool(tvm_ffi.structural_equal(x, y))
    assert isinstance(x, TensorAffineType) and isinstance(y, TensorAffineType)
    return (
        x.dtype == y.dtype
        and approx_equal(x.scale, y.scale)
        and approx_equal(x.zero_point, y.zero_point)
        and (x.axis == y.axis or (is_per_tensor(x) and is_per_tensor(y)))
    )


def is_per_tensor(ty: TensorAffineType) -> bool:
    """Say whether a type has one scale and one zero point for the whole tensor."""
    return all(dims.equal(dims.product(type_of(p).shape), 1) is True for p in (ty.scale, ty.zero_point))


def is_zero(parameter: RelayExpr) -> bool:
    """Say whether a zero point is known to be 0 everywhere."""
    folded = fold_constant(parameter)
    return isinstance(folded, Constant) and not folded.data.numpy().any()


def rank_of(expr: RelayExpr) -> int:
    """Return the number of dimensions of a tensor expression."""
    return len(type_of(expr).shape)


def same_axis(ty: TensorAffineType, expr: RelayExpr, axis: int, of: RelayExpr) -> bool:
    """Say whether a vector of an expression's type lies along an axis of another, which it broadcasts against."""
    own, other = rank_of(expr), rank_of(of)
    return ty.axis % own - own == axis % other - other


def require_per_tensor(call: Call, ty: TensorAffineType) -> None:
    """Refuse a rule for numbers with a scale or a zero point for each channel."""
    if not is_per_tensor(ty):
        raise UnsupportedOperatorError(f"{call.op.name} on integers with scales or zero points for each channel")


def attributes(call: Call, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the attributes of a call by name."""
    return {f.name: getattr(call.attrs, f.name) for f in call.attrs.declared if f.name not in without}


def with_scale(x: RelayExpr, y: RelayExpr) -> RelayExpr:
    """Return the product of two scales."""
    if isinstance(x, Constant) and isinstance(y, Constant):
        return const(np.asarray(x.data.numpy() * y.data.numpy(), "float32"))
    return fold_constant(build("multiply", x, y))


def requantized(data: RelayExpr, source: TensorAffineType, wanted: TensorAffineType) -> RelayExpr:
    """Return integers by another affine type, of one scale and one zero point; as they are where it is the same."""
    if affine_equal(source, wanted):
        return data
    operands = data, source.scale, source.zero_point, wanted.scale, wanted.zero_point
    return build("qnn.requantize", *operands, axis=source.axis, out_dtype=wanted.dtype)
