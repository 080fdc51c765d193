"""Real Fourier transforms of known lengths as matrix products, for TFLite's RFFT2D.

A length is taken apart into two factors, n = a b: transforms of length a, then of length b with the turns between them
(Cooley and Tukey, 1965), each a product with a matrix that is computed here, of 2 n a + 4 n b / 2 steps in all and not
n n as one product would take.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

__all__ = ["real_transform"]


def real_transform(data: relax.Expr, shape: list[int], lengths: tuple[int, int]) -> relax.Expr:
    """Return the Fourier transform along the last two axes of real numbers, of half of the last axis.

    Parameters
    ----------
    data : relax.Expr
        Signals in float32.
    shape : list of int
        Its sizes.
    lengths : tuple of int
        How long the last two axes are transformed: the signals are cut, or filled with zeros behind.

    Returns
    -------
    relax.Expr
        Float32 of the sizes (..., lengths[0], lengths[1] // 2 + 1, 2), the parts of a number last.
    """
    rows, length = lengths
    kept = [min(size, wanted) for size, wanted in zip(shape[-2:], lengths, strict=True)]
    axes = [len(shape) - 2, len(shape) - 1]
    if kept != shape[-2:]:
        data = relax.op.strided_slice(data, axes, [0, 0], kept)
    if kept != [*lengths]:
        behind = [wanted - size for wanted, size in zip(lengths, kept, strict=True)]
        data = relax.op.nn.pad(data, [*[0] * (2 * len(shape) - 4), 0, behind[0], 0, behind[1]])
    signals, bins = math.prod(shape[:-2]), length // 2 + 1
    found = _along_lines(data, signals * rows, length)
    if rows > 1:
        found = _along_columns(found, signals, rows, bins)
    return relax.op.reshape(found, [*shape[:-2], rows, bins, 2])


def _along_lines(data: relax.Expr, count: int, length: int) -> relax.Expr:
    """Return the first half of the transforms of so many real signals, (count, length // 2 + 1, 2)."""
    first = next(a for a in range(math.isqrt(length), 0, -1) if length % a == 0)
    second, bins = length // first, length // 2 + 1
    most = (bins - 1) // first + 1  # of the second transforms' results, the last is in none but these
    # Element n1 second + n2 of a signal, and frequency k1 + first k2.
    k1, k2 = np.arange(first), np.arange(most)
    inner = _parts(np.outer(np.arange(first), k1) / first)
    n2 = np.arange(second)[:, None]
    outer = np.stack([_products(n2 * (k + first * k2) / length) for k in range(first)])
    # The first matrix stands on the left, so that n2 stays the last axis: what moves between the products are whole
    # rows of it, and signals need not be transposed before.
    turns = np.ascontiguousarray(inner.transpose(2, 1, 0)).reshape(2 * first, first)
    x = relax.op.matmul(relax.const(turns), relax.op.reshape(data, [count, first, second]))
    x = relax.op.permute_dims(relax.op.reshape(x, [count, first, 2 * second]), [1, 0, 2])
    x = relax.op.matmul(x, relax.const(outer))
    x = relax.op.permute_dims(relax.op.reshape(x, [first, count, 2, most]), [1, 3, 0, 2])
    x = relax.op.reshape(x, [count, most * first, 2])
    return x if most * first == bins else relax.op.strided_slice(x, [1], [0], [bins])


def _along_columns(data: relax.Expr, signals: int, rows: int, bins: int) -> relax.Expr:
    """Return the transforms of complex numbers, (signals, rows, bins, 2), along the rows."""
    index = np.arange(rows)
    x = relax.op.permute_dims(relax.op.reshape(data, [signals, rows, bins, 2]), [0, 2, 3, 1])
    matrix = _products(np.outer(index, index) / rows)
    x = relax.op.matmul(relax.op.reshape(x, [signals * bins, 2 * rows]), relax.const(matrix))
    return relax.op.permute_dims(relax.op.reshape(x, [signals, bins, 2, rows]), [0, 3, 1, 2])


def _parts(turns: np.ndarray) -> np.ndarray:
    """Return exp(-i 2 pi t) for (n, k) of turns t, as float32 (n, 2, k)."""
    angles = -2 * np.pi * turns
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")


def _products(turns: np.ndarray) -> np.ndarray:
    """Return the matrix by which complex numbers (2 n) become the (2 k) that :func:`_parts` of them add up to."""
    real, imaginary = _parts(turns).transpose(1, 0, 2)
    return np.block([[real, imaginary], [-imaginary, real]])
