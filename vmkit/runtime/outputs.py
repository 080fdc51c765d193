"""Results in tensors of the caller's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm.runtime import Tensor

from ..errors import InputError

if TYPE_CHECKING:
    from ..values.kinds.value import Result

__all__ = ["copy_outputs"]


def copy_outputs(result: Result, targets: Sequence[Tensor]) -> None:
    """Copy a result, or each field of a tuple, into a tensor of its dtype and shape.

    Raises
    ------
    InputError
        If a tensor does not fit, before any is written to.
    """
    outputs = result if isinstance(result, tuple) else (result,)
    if len(outputs) != len(targets):
        raise InputError(
            "Number of outside output tensors should be equal to model outputs number: "
            f"{len(targets)} given, {len(outputs)} returned"
        )
    for index, (output, target) in enumerate(zip(outputs, targets, strict=True)):
        _check_output(index, output, target)
    for output, target in zip(outputs, targets, strict=True):
        assert isinstance(output, Tensor)
        output.copyto(target)


def _check_output(index: int, output: Result, target: Tensor) -> None:
    if not isinstance(target, Tensor) or not isinstance(output, Tensor):
        raise InputError(f"output {index}: expected a tensor to copy to and one to copy from, got {type(target)}")
    inside, outside = tuple(output.shape), tuple(target.shape)
    if str(output.dtype) != str(target.dtype):
        what = "Data types mismatching for internal and external output tensors"
        raise InputError(f"{what}: output {index} is {output.dtype}, the tensor given is {target.dtype}")
    if math.prod(inside) != math.prod(outside):
        what = "Element number mismatching of internal and external output tensors"
        raise InputError(f"{what}: output {index} has shape {inside}, the tensor given {outside}")
    if inside != outside:
        what = "Internal and external output tensor shapes are mismatched"
        raise InputError(f"{what}: output {index} has shape {inside}, the tensor given {outside}")
