"""Tensors of which the bytecode itself says the data type and the extents: constants, and what it allocates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..values.kernel_needs import RUN_STATE, KnownTensor
from .instructions import Arg, ArgKind

if TYPE_CHECKING:
    from .program import Program

__all__ = ["allocated_tensor", "constant_tensor", "is_run_state"]

_STATE = KnownTensor((0, 64, 1), (len(RUN_STATE) // 8,))


def allocated_tensor(program: Program, args: Sequence[Arg]) -> KnownTensor | None:
    """Return what ``alloc_tensor`` allocates; None where its shape is made when the program runs."""
    if len(args) < 4 or not all(arg.kind == ArgKind.CONSTANT for arg in args[2:4]):
        return None
    shape, dtype = (program.constants[arg.value] for arg in args[2:4])
    triple = getattr(dtype, "dtype", None)
    return KnownTensor(triple, shape) if isinstance(shape, tuple) and triple is not None else None


def constant_tensor(program: Program, position: int) -> KnownTensor | None:
    """Return what a constant is, also one that is kept elsewhere, of which a text says it; None where it does not."""
    constant = program.constants[position]
    if not isinstance(constant, str):
        return getattr(constant, "known", None)
    try:
        said = json.loads(constant.partition(":")[2])
        code, bits, lanes = said["dtype"]
        return KnownTensor((code, bits, lanes), tuple(said["shape"]))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def is_run_state(program: Program, arg: Arg) -> bool:
    """Say whether an argument is the constant that kernel groups look at, to know whether to go on."""
    constant = program.constants[arg.value] if arg.kind == ArgKind.CONSTANT else None
    is_state = getattr(constant, "known", None) == _STATE
    return is_state and bytes(getattr(constant, "data", b"")) == RUN_STATE
