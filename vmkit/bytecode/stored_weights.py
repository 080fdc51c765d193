"""Large constants of a program in a block of their own, so that they are used where a file was read to.

In the code a constant that was moved there leaves a text, which says its data type, its shape and its place; and of a
weight that is transformed when the program starts, which lies there as it was, how that is done. What is float32 in the
program but fits into 16 bits lies there in these, and is widened when the file is read.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from mmap import mmap
from typing import Any

import numpy as np
from tvm.runtime import Tensor

from ..errors import ExecutableError
from ..kernels.winograd_weight import PLAIN_TILE
from ..values.host_memory import ALIGNMENT, aligned_empty, over_memory
from . import Program, TensorConstant
from .half_weights import in_half, out_of_half
from .later_weights import LaterConstant, later_from, later_text
from .placeholders import Placeholder, large_constants, with_constants
from .program import Constant

__all__ = ["moved_to_block", "needs_blocks", "needs_half_weights", "needs_later_weights", "tensor_over", "with_block"]

_STORED = Placeholder("vmkit.weight:")
_LATER = Placeholder("vmkit.later_weight:")
_KEY = "stored"  # the data type of the elements in the block, where the program has float32


def moved_to_block(program: Program) -> tuple[Program, list[bytes | memoryview]]:
    """Return a program without its large constants, and the block that holds them, each at an aligned place.

    The block is in parts that follow each other: joined they would be in memory twice.
    """
    block: list[bytes | memoryview] = []
    place = 0
    texts: dict[int, str] = {}
    # One weight may be transformed in several ways: it is where the first of these has it.
    placed: dict[Hashable, tuple[int, TensorConstant]] = {}
    for position, constant in large_constants(program).items():
        later = constant if isinstance(constant, LaterConstant) else None
        weight = constant if later is None else later.weight
        have = None if later is None else placed.get(_memory(weight))
        at, stored = have if have is not None else (place, in_half(weight))
        said = {
            "dtype": weight.dtype,
            "device": weight.device,
            "shape": weight.shape,
            "place": at,
            "size": stored.nbytes,
            "reserved": weight.reserved,
            **({} if later is None else later_text(later)),
            **({} if stored.dtype == constant.dtype else {_KEY: stored.dtype}),
        }
        texts[position] = (_STORED if later is None else _LATER).text(said)
        if have is not None:
            continue
        if later is not None:
            placed[_memory(weight)] = place, stored
        block += [stored.data, bytes(-stored.nbytes % ALIGNMENT)]
        place += stored.nbytes + -stored.nbytes % ALIGNMENT
    return with_constants(program, texts), block


def _memory(weight: TensorConstant) -> Hashable:
    """Return what is equal of constants over the same memory."""
    return weight.dtype, weight.shape, np.frombuffer(weight.data, "uint8").ctypes.data


def needs_later_weights(moved: Program) -> bool:
    """Say whether some constants that were moved to a block are transformed when the program starts."""
    return bool(_LATER.found(moved))


def needs_blocks(moved: Program) -> bool:
    """Say whether some constants that were moved to a block are put in blocks as they are when the program starts."""
    return any(tuple(said["tile"]) == PLAIN_TILE for said in _LATER.found(moved).values())


def needs_half_weights(moved: Program) -> bool:
    """Say whether some constants that were moved to a block lie there in 16 bits and are to be widened."""
    return any(_KEY in said for kind in (_STORED, _LATER) for said in kind.found(moved).values())


def with_block(program: Program, block: memoryview) -> Program:
    """Return a program whose constants are back in their places, as parts of the block, or made of them.

    Raises
    ------
    ExecutableError
        If a constant lies outside of the block, or cannot be made as it is said.
    """
    stored, later = _STORED.found(program), _LATER.found(program)
    parts = {at: _part_of(block, said, said["shape"]) for at, said in stored.items()}
    parts |= {at: _part_of(block, said, said["weight"]) for at, said in later.items()}
    widened = {at for at, said in stored.items() if _KEY in said}
    if 2 * sum(parts[at].nbytes for at in widened) > len(block) and not isinstance(block.obj, mmap):
        # What is left of the block takes less memory by itself; of one that is mapped only that is in memory anyway.
        parts = {at: part if at in widened else _by_itself(part) for at, part in parts.items()}
    made: dict[int, Constant] = dict(parts)
    made |= {at: out_of_half(parts[at], tuple(stored[at]["dtype"])) for at in widened}
    made |= {at: later_from(parts[at], said) for at, said in later.items()}
    return with_constants(program, made)


def _by_itself(part: TensorConstant) -> TensorConstant:
    data = aligned_empty(part.nbytes)
    data.data[:] = part.data
    return replace(part, data=data.data)


def _part_of(block: memoryview, said: Mapping[str, Any], shape: Sequence[int]) -> TensorConstant:
    place, size = said["place"], said["size"]
    data, dtype = block[place : place + size], said.get(_KEY, said["dtype"])
    part = TensorConstant(tuple(dtype), tuple(said["device"]), tuple(shape), data, said["reserved"])
    if not 0 <= place <= place + size <= len(block) or not part.is_whole:
        raise ExecutableError(f"a constant of {size} bytes at {place} is not in the {len(block)} bytes of weights")
    return part


def tensor_over(constant: TensorConstant) -> Tensor:
    """Return a constant as a tensor on the CPU, over its own memory where that is aligned and may be written to."""
    return over_memory(np.frombuffer(constant.data, "uint8"), constant.shape, constant.dtype_name)
