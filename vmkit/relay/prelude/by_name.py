"""What Relay's prelude had in a module from the start, made when it is first asked for by its name."""

from __future__ import annotations

import tvm

from ..ir import type_definitions
from .names import ranked_name
from .prelude import Prelude
from .ranked import TensorArrayOps

__all__ = ["define_by_name"]

# The element types that Relay's prelude made tensor arrays for.
_DTYPES = ("float32", "float16", "float64", "int32", "uint8", "int8", "int16", "uint16", "int64")


def define_by_name(mod: tvm.IRModule, name: str) -> bool:
    """Add a type or function of tensor arrays to a module that has the prelude, where it bears such a name.

    Parameters
    ----------
    mod : tvm.IRModule
        The module, which is changed.
    name : str
        What is asked for, such as ``"tensor_float32_t"`` or ``"tensor_array_write_int32"``.

    Returns
    -------
    bool
        Whether it was added.
    """
    dtype = next((d for d in _DTYPES if name == ranked_name("tensor_t", d) or name.endswith(f"_{d}")), None)
    if dtype is None or not _has_prelude(mod):
        return False
    canonical = name.removesuffix(f"_{dtype}")
    if name != ranked_name("tensor_t", dtype) and canonical not in TensorArrayOps.MAKERS:
        return False
    arrays = TensorArrayOps(Prelude(mod), dtype)
    if canonical in TensorArrayOps.MAKERS:
        arrays.get_global_var(canonical)
    return True


def _has_prelude(mod: tvm.IRModule) -> bool:
    return {"List", "Option", "Tree"} <= set(type_definitions(mod))
