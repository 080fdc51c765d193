"""How the numbers of a tensor stand for reals: by a scale and a zero point.

An integer ``q`` of a tensor of an affine type stands for ``scale * (q - zero_point)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi

from .dtype import dtype_name
from .expr import RelayExpr
from .lifetime import py_class

__all__ = ["AffineType", "TensorAffineType", "TupleAffineType"]


@py_class("relay.AffineType")
class AffineType(tvm.ir.Node):
    """Base of the affine types."""


@py_class("relay.TensorAffineType", init=False)
class TensorAffineType(AffineType):
    """The affine type of a tensor.

    Parameters
    ----------
    scale, zero_point : Expr
        One number for the whole tensor, or a vector along `axis`: float32 scales, int32 zero points.
    dtype : str
        The data type of the integers.
    axis : int
        The axis that vectors lie along.

    Examples
    --------
    >>> from vmkit import relay
    >>> relay.TensorAffineType(relay.const(0.5), relay.const(0), "int8").dtype
    'int8'
    """

    scale: Any
    zero_point: Any
    dtype: str
    axis: int

    def __init__(self, scale: RelayExpr, zero_point: RelayExpr, dtype: str, axis: int = -1) -> None:
        self.__ffi_init__(scale=scale, zero_point=zero_point, dtype=dtype_name(dtype), axis=int(axis))


@py_class("relay.TupleAffineType", init=False)
class TupleAffineType(AffineType):
    """The affine types of the fields of a tuple."""

    types: tvm_ffi.Array

    def __init__(self, types: Sequence[TensorAffineType]) -> None:
        self.__ffi_init__(types=list(types))
