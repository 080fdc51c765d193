"""Eigenvalues of symmetric matrices and singular values of any, of PyTorch, with their vectors; by Jacobi's rotations.

In float64 whatever the type. The signs of vectors, and the vectors of equal values, are as the rotations leave them:
both LAPACK's and these are right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, tirx

from ...relay.op.kernel import grid
from . import jacobi
from .arguments import Converter, Importing, arguments_of, cast_to
from .matrix_kernels import WIDE
from .relay_operators import looped

if TYPE_CHECKING:
    from torch import fx

__all__ = ["SPECTRA"]


def _of_symmetric(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the eigenvalues of symmetric matrices, the least first, and their vectors, one a column."""
    data, triangle, _ = arguments_of(node)
    value = importer.env[data]
    shape, dtype, is_lower = list(value.ty.shape), str(value.ty.dtype), triangle.upper() == "L"

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        values, vectors, rest, state = outputs
        with grid(list(x.shape[:-2])) as i:
            jacobi.eigen(x, values, vectors, rest, state, i, is_lower=is_lower)

    results: list[Any] = [(shape[:-1], WIDE), (shape, WIDE), (shape[-2:], WIDE), ([4], WIDE)]
    values, vectors, *_ = looped(importer, results, body, value, name="eigen")
    return importer.block_builder.emit(relax.Tuple([cast_to(importer, each, dtype) for each in (values, vectors)]))


def _of_any(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return matrices as orthogonal columns, singular values, the largest first, and orthogonal rows."""
    data, is_full, *_ = arguments_of(node)
    value, emit = importer.env[data], importer.block_builder.emit
    *stack, rows, columns = value.ty.shape
    dtype, count = str(value.ty.dtype), tirx.min(rows, columns)
    lefts, rights = (rows, columns) if is_full else (count, count)

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        left, values, right, rest, turned, state = outputs
        with grid(list(x.shape[:-2])) as i:
            jacobi.singular(x, left, values, right, (rest, turned, state), i)

    results: list[Any] = [
        ([*stack, rows, lefts], WIDE), ([*stack, count], WIDE), ([*stack, rights, columns], WIDE),
        ([rows, columns], WIDE), ([columns, columns], WIDE), ([4], WIDE),
    ]  # fmt: skip
    made = looped(importer, results, body, value, name="singular")[:3]
    return emit(relax.Tuple([cast_to(importer, each, dtype) for each in made]))


SPECTRA: dict[str, Converter] = {"_linalg_eigh.default": _of_symmetric, "_linalg_svd.default": _of_any}
"""The converters, by the names of PyTorch's operators."""
