"""Sequences and optional values whose elements are known while a model is imported.

Such a value is the call of the operator that makes it; what is read of it is an argument of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ModelError
from ...relay.ir import Expr, MapType, SequenceType, TensorType, Type, UnrankedType, is_call
from ...relay.op import build
from .typing import typed

__all__ = ["is_none", "is_some", "known_elements", "sequence_of", "tensor_dtype"]


def known_elements(value: Any) -> list[Expr] | None:
    """Return the elements of a sequence, None if they are not known."""
    return list(value.args) if is_call(value, "sequence.construct") else None


def is_some(value: Any) -> bool:
    """Say whether an optional value is known to hold something, its argument."""
    return is_call(value, "optional.some")


def is_none(value: Any) -> bool:
    """Say whether an optional value is known to hold nothing."""
    return is_call(value, "optional.none")


def tensor_dtype(ty: Type) -> str:
    """Return the data type of a tensor, or of the tensors in a sequence or an optional value."""
    while not isinstance(ty, TensorType | UnrankedType):
        if isinstance(ty, MapType):
            raise ModelError("it is of maps, which ONNX has no operators for but those of ai.onnx.ml")
        ty = ty.element
    return ty.dtype


def sequence_of(elements: Sequence[Expr], like: Expr | str) -> Expr:
    """Return the sequence of some tensors; `like` is another one, or a data type, for the type of one without any."""
    dtype = like if isinstance(like, str) else tensor_dtype(typed(like).checked_type_)
    for element in elements:
        ty = typed(element).checked_type_
        if isinstance(ty, SequenceType) or tensor_dtype(ty) != dtype:
            raise ModelError(f"a sequence of {dtype} tensors cannot hold {ty}")
    return typed(build("sequence.construct", *elements, dtype=dtype))
