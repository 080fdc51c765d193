"""The data types of programs, by name."""

from __future__ import annotations

import re

import numpy as np
from tvm.runtime import DataType

from ...errors import TypeCheckError, suggest
from ...values.element_types import is_stored_type

__all__ = ["COMMON_DTYPES", "as_dtype", "dtype_name", "is_vector"]

COMMON_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "bfloat16",
)  # fmt: skip

# Names without a size, as TVM reads them, and the one that it called by two names.
_USUAL_NAMES = {"float": "float32", "int": "int32", "uint": "uint32", "uint1": "bool"}
# Relay's texts may have them; nothing gives or takes a tensor of such elements.
_VECTOR = re.compile(r"(?:u?int(?:8|16|32|64)|uint1|float(?:16|32|64)|bool)x[1-9]\d{0,3}\Z", re.ASCII)


def as_dtype(name: str) -> str | None:
    """Return the data type of a name in its usual spelling (``uint1`` is ``bool``); None when there is none."""
    known = _USUAL_NAMES.get(name, name)
    is_known = known in COMMON_DTYPES or is_stored_type(known)
    return known if is_known or _VECTOR.match(known) else None


def is_vector(dtype: str) -> bool:
    """Say whether an element of a data type is several numbers."""
    return _VECTOR.match(dtype) is not None


def dtype_name(dtype: str | type | np.dtype | DataType) -> str:
    """Return the name of a data type that is given by name, or as numpy or TVM have it.

    Raises
    ------
    TypeCheckError
        When no program has such a data type.
    """
    # ``str`` of numpy's classes of scalars, such as ``np.float32``, is no name.
    name = np.dtype(dtype).name if isinstance(dtype, type) else str(dtype)
    known = as_dtype(name)
    if known is None:
        raise TypeCheckError(f"there is no data type {name!r}{suggest(name, COMMON_DTYPES)}")
    return known
