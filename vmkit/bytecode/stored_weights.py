"""Large constants of a program in a block of their own, so that they are used where a file was read to.

In the code a constant that was moved there leaves a text, which says its data type, its shape and its place; and of a
weight that is transformed when the program starts, which lies there as it was, how that is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm.runtime import Tensor

from ..errors import ExecutableError
from ..values.host_memory import ALIGNMENT, over_memory
from . import Program, TensorConstant
from .later_weights import LaterConstant, later_from, later_text
from .placeholders import Placeholder, large_constants, with_constants

__all__ = ["has_later_weights", "moved_to_block", "tensor_over", "with_block"]

_STORED = Placeholder("vmkit.weight:")
_LATER = Placeholder("vmkit.later_weight:")


def moved_to_block(program: Program) -> tuple[Program, list[bytes | memoryview]]:
    """Return a program without its large constants, and the block that holds them, each at an aligned place.

    The block is in parts that follow each other: joined they would be in memory twice.
    """
    block: list[bytes | memoryview] = []
    place = 0
    texts: dict[int, str] = {}
    for position, constant in large_constants(program).items():
        later = constant if isinstance(constant, LaterConstant) else None
        stored = constant if later is None else later.weight
        said = {
            "dtype": stored.dtype,
            "device": stored.device,
            "shape": stored.shape,
            "place": place,
            "size": stored.nbytes,
            "reserved": stored.reserved,
        }
        texts[position] = _STORED.text(said) if later is None else _LATER.text({**said, **later_text(later)})
        block += [stored.data, bytes(-stored.nbytes % ALIGNMENT)]
        place += stored.nbytes + -stored.nbytes % ALIGNMENT
    return with_constants(program, texts), block


def has_later_weights(program: Program) -> bool:
    """Say whether some constants of a program are transformed when it starts."""
    return any(isinstance(constant, LaterConstant) for constant in program.constants)


def with_block(program: Program, block: memoryview) -> Program:
    """Return a program whose constants are back in their places, as parts of the block.

    Raises
    ------
    ExecutableError
        If a constant lies outside of the block, or cannot be transformed as it is said.
    """
    stored = {at: _part_of(block, said, said["shape"]) for at, said in _STORED.found(program).items()}
    later = {at: later_from(_part_of(block, said, said["weight"]), said) for at, said in _LATER.found(program).items()}
    return with_constants(program, {**stored, **later})


def _part_of(block: memoryview, said: Mapping[str, Any], shape: Sequence[int]) -> TensorConstant:
    place, size = said["place"], said["size"]
    data = block[place : place + size]
    part = TensorConstant(tuple(said["dtype"]), tuple(said["device"]), tuple(shape), data, said["reserved"])
    if not 0 <= place <= place + size <= len(block) or not part.is_whole:
        raise ExecutableError(f"a constant of {size} bytes at {place} is not in the {len(block)} bytes of weights")
    return part


def tensor_over(constant: TensorConstant) -> Tensor:
    """Return a constant as a tensor on the CPU, over its own memory where that is aligned and may be written to."""
    return over_memory(np.frombuffer(constant.data, "uint8"), constant.shape, constant.dtype_name)
