"""Rewriting bytecode: instructions are put in and taken out, and jumps and functions find their places again.

Jumps are relative to their own position, and functions are ranges of one sequence of instructions, so every change
moves others. Here is all that knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .._dataclasses import dataclass
from .program import (
    SPECIAL_REGISTER,
    Arg,
    ArgKind,
    Call,
    FunctionKind,
    Goto,
    If,
    Instruction,
    Program,
    Ret,
    VMFunction,
)

__all__ = ["JumpTo", "edited", "with_bodies", "with_packed", "with_registers"]


@dataclass(frozen=True)
class JumpTo:
    """Go on where the instruction at `position` was, wherever that has moved to."""

    position: int


def edited(
    code: Sequence[Instruction],
    *,
    before: Mapping[int, Sequence[Instruction]] | None = None,
    instead: Mapping[int, Sequence[Instruction | JumpTo]] | None = None,
) -> tuple[Instruction, ...]:
    """Return the instructions of a function with others among them, every jump going to where it went.

    Parameters
    ----------
    before
        By position, what is put in front of the instruction there. It runs when the instruction before it has run; a
        jump to the position passes it by.
    instead
        By position, what takes the instruction's place, which may be nothing. A jump to the position goes to the first
        of that, or to what follows.
    """
    before, instead = before or {}, instead or {}
    steps: list[Instruction | JumpTo] = []
    places: list[int] = []
    for at, instruction in enumerate(code):
        steps += before.get(at, ())
        places.append(len(steps))
        steps += instead[at] if at in instead else [_with_target(instruction, at)]
    return tuple(_placed(step, here, places) for here, step in enumerate(steps))


@dataclass(frozen=True)
class _BranchTo(JumpTo):
    """As :class:`If`, by the old position."""

    condition: int


def _with_target(instruction: Instruction, at: int) -> Instruction | JumpTo:
    match instruction:
        case Goto(offset):
            return JumpTo(at + offset)
        case If(condition, offset):
            return _BranchTo(at + offset, condition)
        case _:
            return instruction


def _placed(step: Instruction | JumpTo, here: int, places: Sequence[int]) -> Instruction:
    match step:
        case _BranchTo(position, condition):
            return If(condition, places[position] - here)
        case JumpTo(position):
            return Goto(places[position] - here)
        case _:
            return step


def with_bodies(program: Program, bodies: Mapping[int, tuple[VMFunction, Sequence[Instruction]]]) -> Program:
    """Return a program in which some functions of bytecode are others.

    Parameters
    ----------
    bodies
        By position in the table, the function's new row, whose start and end do not count, and its instructions.
    """
    functions, instructions = list(program.functions), list[Instruction]()
    for position, old in sorted(enumerate(program.functions), key=lambda pair: pair[1].start):
        if old.kind != FunctionKind.VM:
            continue
        function, code = bodies.get(position, (old, program.code(old)))
        start = len(instructions)
        instructions += code
        functions[position] = replace(function, start=start, end=len(instructions))
    return replace(program, functions=tuple(functions), instructions=tuple(instructions))


def with_packed(program: Program, name: str) -> tuple[Program, int]:
    """Return a program whose table has a packed function, and the position of that."""
    names = [function.name for function in program.functions]
    if name in names:
        return program, names.index(name)
    row = VMFunction(FunctionKind.PACKED, name, 0, 0, -2, 0, ())
    return replace(program, functions=(*program.functions, row)), len(names)


def with_registers(instruction: Instruction, number: Callable[[int], int]) -> Instruction:
    """Return an instruction that reads and writes the registers of other numbers; special ones keep theirs."""

    def other(register: int) -> int:
        return number(register) if register < SPECIAL_REGISTER else register

    match instruction:
        case Call(destination, function, args):
            made = (Arg(a.kind, other(a.value)) if a.kind == ArgKind.REGISTER else a for a in args)
            return Call(other(destination), function, tuple(made))
        case Ret(result):
            return Ret(other(result))
        case If(condition, offset):
            return If(other(condition), offset)
        case _:
            return instruction
