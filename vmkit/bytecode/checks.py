"""What a function of the bytecode checks of its arguments before it does anything else.

The VM's code begins with a check of every parameter that was declared as a tensor. Where these checks say all that a
signature says, nothing need be compared a second time before a call.
"""

from __future__ import annotations

from dataclasses import replace

from .._dataclasses import dataclass
from .builtins import (
    ALLOC_SHAPE_HEAP,
    CHECK_TENSOR_INFO,
    CHECK_TUPLE_INFO,
    COPY,
    MAKE_TUPLE,
    MATCH_SHAPE,
    NULL_VALUE,
    TUPLE_GETITEM,
)
from .program import VOID_REGISTER, Arg, ArgKind, Call, DTypeConstant, FunctionKind, Goto, Program, VMFunction

__all__ = ["CheckedTensor", "checked_parameters", "without_extent_checks"]

# What hands values on and reads no element.
_HANDING_ON = {CHECK_TENSOR_INFO, CHECK_TUPLE_INFO, COPY, MAKE_TUPLE, MATCH_SHAPE, NULL_VALUE, TUPLE_GETITEM}

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


def without_extent_checks(program: Program) -> Program | None:
    """Return a program that only hands values on, without its checks of their extents; None for any other program.

    Where no element is read, a tensor may have other extents than are declared. A program that calls a kernel, or works
    with sizes, stays as it is: to it a wrong extent is memory that is not there.
    """
    names = [function.name for function in program.functions]
    packed = {at for at, function in enumerate(program.functions) if function.kind == FunctionKind.PACKED}
    for instruction in program.instructions:
        if isinstance(instruction, Call) and instruction.function in packed:
            sizes = names[instruction.function] == MATCH_SHAPE and instruction.args[1].value != VOID_REGISTER
            if sizes or names[instruction.function] not in _HANDING_ON:
                return None
    checks = {at for at in packed if names[at] == MATCH_SHAPE}
    skipped = (Goto(1) if isinstance(i, Call) and i.function in checks else i for i in program.instructions)
    return replace(program, instructions=tuple(skipped))
