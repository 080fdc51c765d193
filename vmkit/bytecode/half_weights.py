"""Constants of float32 whose numbers 16 bits hold, and these as they are stored."""

from __future__ import annotations

from math import prod

from ..errors import ExecutableError
from ..values.halves import HALVES, half_type, narrowed, widened
from ..values.host_memory import aligned_empty
from .program import TensorConstant

__all__ = ["FLOAT32", "HALF_TYPES", "in_half", "out_of_half"]

FLOAT32 = (2, 32, 1)
HALF_TYPES = {"float16": (2, 16, 1), "bfloat16": (4, 16, 1)}
_CPU = 1


def in_half(constant: TensorConstant) -> TensorConstant:
    """Return a constant of float32 on the CPU in 16 bits, if these hold all its numbers; any other as it is."""
    if constant.dtype != FLOAT32 or constant.device[0] != _CPU:
        return constant
    array = constant.numpy()
    half = half_type(array, HALVES)
    if half is None:
        return constant
    data = narrowed(array, half).reshape(-1).view("uint8").data
    return TensorConstant(HALF_TYPES[half], constant.device, constant.shape, data, constant.reserved)


def out_of_half(constant: TensorConstant, dtype: tuple[int, ...]) -> TensorConstant:
    """Return what :func:`in_half` was given, of a data type.

    Raises
    ------
    ExecutableError
        If it would not give that.
    """
    is_half = constant.dtype in HALF_TYPES.values() and constant.nbytes == 2 * prod(constant.shape)
    if not is_half or dtype != FLOAT32 or constant.device[0] != _CPU:
        raise ExecutableError(f"a constant of {constant.dtype_name}{list(constant.shape)!r:.80} cannot be widened")
    made = aligned_empty(2 * constant.nbytes)
    widened(constant.numpy().reshape(-1), made.view("float32"))
    return TensorConstant(FLOAT32, constant.device, constant.shape, made.data, constant.reserved)
