"""Constants that a program copies to a device at each call become constants that lie on that device.

A machine that passes weights to its program puts them there once; see :func:`.weights.lift_weights`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .builtins import TO_DEVICE
from .placeholders import large_constants, with_constants
from .program import Arg, ArgKind, Call, Constant, Instruction, Program, VMFunction
from .rewrite import edited, with_bodies

__all__ = ["with_placed_weights"]

Device = tuple[int, int]


def with_placed_weights(program: Program) -> tuple[Program, dict[int, Device]]:
    """Return a program without copies of constants, and where some of its constants must lie instead.

    Returns
    -------
    program
        It has another constant for each device that one was copied to.
    devices
        By position of such a constant, the number of the device's type, and which one of that type.
    """
    copies = {at for at, function in enumerate(program.functions) if function.name == TO_DEVICE}
    tensors = large_constants(program, 0)
    constants: list[Constant] = list(program.constants)
    known: dict[tuple[int, ...], int] = {}
    bodies: dict[int, tuple[VMFunction, Sequence[Instruction]]] = {}
    for at, function in enumerate(program.functions):
        code = program.code(function)
        writes = Counter(one.destination for one in code if isinstance(one, Call))
        held: dict[int, int] = {}
        gone: dict[int, Sequence[Instruction]] = {}
        for position, one in enumerate(code):
            if not isinstance(one, Call) or one.function not in copies or writes[one.destination] != 1:
                continue
            weight, *where = one.args
            if weight.kind != ArgKind.CONSTANT or weight.value not in tensors:
                continue
            key = weight.value, *(arg.value for arg in where)
            if key not in known:
                known[key] = len(constants)
                constants.append(program.constants[weight.value])
            held[one.destination], gone[position] = known[key], ()
        if held:
            bodies[at] = (function, edited([_reading(one, held) for one in code], instead=gone))
    if not known:
        return program, {}
    placed = {index: (kind, number) for (_, kind, number), index in known.items()}
    made = with_bodies(replace(program, constants=tuple(constants)), bodies)
    read = {arg.value for one in made.instructions if isinstance(one, Call) for arg in one.args if _is_constant(arg)}
    return with_constants(made, {weight: 0 for weight, *_ in known if weight not in read}), placed


def _is_constant(arg: Arg) -> bool:
    return arg.kind == ArgKind.CONSTANT


def _reading(one: Instruction, held: dict[int, int]) -> Instruction:
    """Return an instruction that reads constants in the places of registers."""
    if not isinstance(one, Call):
        return one

    def other(arg: Arg) -> Arg:
        is_held = arg.kind == ArgKind.REGISTER and arg.value in held
        return Arg(ArgKind.CONSTANT, held[arg.value]) if is_held else arg

    return replace(one, args=tuple(map(other, one.args)))
