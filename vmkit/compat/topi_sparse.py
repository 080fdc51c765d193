"""``tvm.topi.sparse.utils``: random sparse matrices for tests."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from vmkit.errors import UnavailableError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["random_bsr_matrix", "utils"]


def random_bsr_matrix(m: int, n: int, bs_r: int, bs_c: int, density: float, dtype: str) -> Any:  # noqa: ANN401 - scipy has no types
    """Return a ``scipy.sparse.bsr_matrix`` of normally distributed numbers in blocks at random places.

    Parameters
    ----------
    m, n : int
        The numbers of rows and columns, multiples of those of a block.
    bs_r, bs_c : int
        The numbers of rows and columns of a block.
    density : float
        The share of elements that are in blocks, from 0 to 1; the number of blocks is rounded up.
    dtype : str
        The data type.

    Raises
    ------
    UnavailableError
        When scipy is not installed.
    """
    if find_spec("scipy") is None:
        raise UnavailableError("a sparse matrix is one of scipy, which is not installed: pip install scipy")
    if m % bs_r or n % bs_c:
        raise ValueError(f"blocks of {bs_r} x {bs_c} do not divide a matrix of {m} x {n}")
    rows, columns = m // bs_r, n // bs_c
    count = min(int(np.ceil(m * n * density / (bs_r * bs_c))), rows * columns)
    chosen = np.sort(np.random.choice(rows * columns, size=count, replace=False))
    before = np.searchsorted(chosen, np.arange(rows + 1) * columns)
    data = np.random.randn(count, bs_r, bs_c).astype(dtype)
    sparse = importlib.import_module("scipy.sparse")
    return sparse.bsr_matrix((data, chosen % columns, before), shape=(m, n))


# Relay's module of these was one below.
utils: ModuleType = sys.modules[__name__]
