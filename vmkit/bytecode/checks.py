"""What a function of the bytecode checks of its arguments before it does anything else.

The VM's code begins with a check of every parameter that was declared as a tensor. Where these checks say all that a
signature says, nothing need be compared a second time before a call.
"""

from __future__ import annotations

from dataclasses import dataclass

from .builtins import ALLOC_SHAPE_HEAP, CHECK_TENSOR_INFO, MATCH_SHAPE
from .program import Arg, ArgKind, Call, DTypeConstant, Program, VMFunction

__all__ = ["CheckedTensor", "checked_parameters"]

# How match_shape says what it does with a dim.
_EQUALS_NUMBER, _STORES, _EQUALS_STORED = 0, 1, 3


@dataclass(frozen=True)
class CheckedTensor:
    """What is checked of one tensor.

    Parameters
    ----------
    dtype
        The name of the type that it must have.
    rank
        The number of dims that it must have.
    fixed
        The extents that dims must have, by axis.
    stored
        By axis, the places of the shape heap that dims are put in, or are compared with. Dims of one place are equal.
    """

    dtype: str
    rank: int
    fixed: tuple[tuple[int, int], ...] = ()
    stored: tuple[tuple[int, int], ...] = ()


def checked_parameters(program: Program, function: VMFunction) -> dict[int, CheckedTensor]:
    """Return what a function checks of its parameters, by position, before its first other instruction."""
    types: dict[int, tuple[str, int]] = {}
    found: dict[int, CheckedTensor] = {}
    for instruction in program.code(function):
        if not isinstance(instruction, Call):
            break
        name, args = program.functions[instruction.function].name, instruction.args
        if name == CHECK_TENSOR_INFO and len(args) >= 3:
            dtype = program.constants[args[2].value] if args[2].kind == ArgKind.CONSTANT else None
            if isinstance(dtype, DTypeConstant):
                types[args[0].value] = (str(dtype), args[1].value)
        elif name == MATCH_SHAPE and args[0].value in types:
            position = args[0].value
            found[position] = _with_shape(CheckedTensor(*types[position]), args[3 : 3 + 2 * args[2].value])
        elif name != ALLOC_SHAPE_HEAP:
            break
    scalars = {position: CheckedTensor(*one) for position, one in types.items() if one[1] == 0}
    checked = {**scalars, **found}
    return {position: one for position, one in checked.items() if position < function.num_args}


def _with_shape(tensor: CheckedTensor, codes: tuple[Arg, ...]) -> CheckedTensor:
    pairs = [(code.value, value.value) for code, value in zip(codes[::2], codes[1::2], strict=True)]
    fixed = tuple((axis, value) for axis, (code, value) in enumerate(pairs) if code == _EQUALS_NUMBER)
    stored = tuple((axis, value) for axis, (code, value) in enumerate(pairs) if code in (_STORES, _EQUALS_STORED))
    return CheckedTensor(tensor.dtype, tensor.rank, fixed, stored)
