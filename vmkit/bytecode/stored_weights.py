"""Large constants of a program in a block of their own, so that they are used where a file was read to.

In the code a constant that was moved there leaves a text, which says its data type, its shape and its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm.runtime import Tensor

from ..errors import ExecutableError
from ..values.host_memory import ALIGNMENT, over_memory
from . import Program, TensorConstant
from .placeholders import Placeholder, large_constants, with_constants

__all__ = ["moved_to_block", "tensor_over", "with_block"]

_STORED = Placeholder("vmkit.weight:")


def moved_to_block(program: Program) -> tuple[Program, list[bytes | memoryview]]:
    """Return a program without its large constants, and the block that holds them, each at an aligned place.

    The block is in parts that follow each other: joined they would be in memory twice.
    """
    block: list[bytes | memoryview] = []
    place = 0
    texts: dict[int, str] = {}
    for position, constant in large_constants(program).items():
        size = len(constant.data)
        said = {
            "dtype": constant.dtype,
            "device": constant.device,
            "shape": constant.shape,
            "place": place,
            "size": size,
            "reserved": constant.reserved,
        }
        texts[position] = _STORED.text(said)
        block += [constant.data, bytes(-size % ALIGNMENT)]
        place += size + -size % ALIGNMENT
    return with_constants(program, texts), block


def with_block(program: Program, block: memoryview) -> Program:
    """Return a program whose constants are back in their places, as parts of the block.

    Raises
    ------
    ExecutableError
        If a constant lies outside of the block.
    """
    return with_constants(program, {at: _part_of(block, said) for at, said in _STORED.found(program).items()})


def _part_of(block: memoryview, said: Mapping[str, Any]) -> TensorConstant:
    place, size = said["place"], said["size"]
    data = block[place : place + size]
    part = TensorConstant(tuple(said["dtype"]), tuple(said["device"]), tuple(said["shape"]), data, said["reserved"])
    if not 0 <= place <= place + size <= len(block) or not part.is_whole:
        raise ExecutableError(f"a constant of {size} bytes at {place} is not in the {len(block)} bytes of weights")
    return part


def tensor_over(constant: TensorConstant) -> Tensor:
    """Return a constant as a tensor on the CPU, over its own memory where that is aligned and may be written to."""
    return over_memory(np.frombuffer(constant.data, "uint8"), constant.shape, constant.dtype_name)
