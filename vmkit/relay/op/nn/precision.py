"""In which data type a kernel sums up."""

from __future__ import annotations

from tvm import te

__all__ = ["accumulator", "as_dtype"]


def accumulator(dtype: str) -> str:
    """Return the data type in which values of `dtype` are summed up: float32 for the shorter floats."""
    return "float32" if dtype == "float16" or dtype.startswith(("bfloat16", "float8", "float4")) else dtype


def as_dtype(tensor: te.Tensor, dtype: str, name: str = "cast") -> te.Tensor:
    """Return a tensor in another data type, as a stage of its own; the tensor itself where it has it already."""
    if str(tensor.dtype) == dtype:
        return tensor
    return te.compute(tensor.shape, lambda *i: tensor(*i).astype(dtype), name=name)
