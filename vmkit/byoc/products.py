"""Products of matrices as libraries take them."""

from __future__ import annotations

from .._dataclasses import dataclass
from ..relay.ir import Call
from .region import plain

__all__ = ["PRODUCTS", "Product", "product_of"]

PRODUCTS = ("nn.dense", "nn.matmul", "nn.batch_matmul")


@dataclass(frozen=True)
class Product:
    """A product of stacks of matrices; one matrix on the right is for all rows on the left.

    Attributes
    ----------
    transpose_a, transpose_b : bool
        Whether the last two axes of a factor are exchanged.
    """

    transpose_a: bool
    transpose_b: bool


def product_of(call: Call) -> Product | str:
    """Return what a call of one of :data:`PRODUCTS` multiplies, or why libraries do not take it."""
    is_dense, attrs = call.op.name == "nn.dense", plain(call.attrs)
    transpose_a, transpose_b = (False, True) if is_dense else (attrs["transpose_a"], attrs["transpose_b"])
    left, right = (len(arg.checked_type.shape) for arg in call.args)
    if left < 2 or right < 2 or (right != left and (right != 2 or transpose_a)):
        return f"it takes stacks of matrices by one or as many, not {left} by {right} dimensions"
    return Product(bool(transpose_a), bool(transpose_b))
