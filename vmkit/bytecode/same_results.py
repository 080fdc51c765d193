"""Which parts of a function's result are the same in every call: constants that it returns, in tuples or alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from .builtins import MAKE_TUPLE
from .program import Arg, ArgKind, Call, Program, Ret, TensorConstant, VMFunction

__all__ = ["SameParts", "same_parts"]

SameParts: TypeAlias = "bool | tuple[SameParts, ...]"
"""Whether a value is the same in every call, or, of a tuple, which of its fields are."""


def same_parts(program: Program, function: VMFunction) -> SameParts:
    """Return what of a function's result is a constant of the program; False where the code has more than one way."""
    held: dict[int, SameParts] = {}
    for instruction in program.code(function):
        if isinstance(instruction, Ret):
            return held.get(instruction.result, False)
        if not isinstance(instruction, Call):
            return False
        is_tuple = program.functions[instruction.function].name == MAKE_TUPLE
        fields = tuple(_part(program, held, arg) for arg in instruction.args) if is_tuple else False
        held[instruction.destination] = fields
    return False


def _part(program: Program, held: Mapping[int, SameParts], arg: Arg) -> SameParts:
    if arg.kind == ArgKind.CONSTANT:
        return isinstance(program.constants[arg.value], TensorConstant)
    return held.get(arg.value, False) if arg.kind == ArgKind.REGISTER else False
