"""In which data type a kernel sums up."""

from __future__ import annotations

from tvm import te

from ....values.element_types import small_integer_bits
from ..conversion import converted

__all__ = ["accumulator", "as_dtype"]


def accumulator(dtype: str) -> str:
    """Return the data type in which values of `dtype` are summed up: float32 for the shorter floats.

    Integers of less than a byte are summed up as int32.
    """
    if small_integer_bits(dtype) is not None:
        return "int32"
    return "float32" if dtype == "float16" or dtype.startswith(("bfloat16", "float8", "float4")) else dtype


def as_dtype(tensor: te.Tensor, dtype: str, name: str = "cast") -> te.Tensor:
    """Return a tensor in another data type, as a stage of its own; the tensor itself where it has it already.

    Of an integer type of less than a byte it has the low bits, as it is stored.
    """
    source = str(tensor.dtype)
    if source == dtype:
        return tensor
    if small_integer_bits(dtype) is not None:
        return te.compute(tensor.shape, lambda *i: converted(tensor(*i), source, dtype), name=name)
    return te.compute(tensor.shape, lambda *i: tensor(*i).astype(dtype), name=name)
