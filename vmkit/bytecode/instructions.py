"""What a VM program is made of: instructions, their arguments, and what registers mean."""

from __future__ import annotations

from enum import IntEnum

from .._dataclasses import dataclass

__all__ = [
    "SPECIAL_REGISTER",
    "VM_REGISTER",
    "VOID_REGISTER",
    "Arg",
    "ArgKind",
    "Call",
    "FunctionKind",
    "Goto",
    "If",
    "Instruction",
    "Ret",
    "following",
]

SPECIAL_REGISTER = 1 << 54
VOID_REGISTER = SPECIAL_REGISTER
VM_REGISTER = SPECIAL_REGISTER + 1


class FunctionKind(IntEnum):
    """Where the code of a function is."""

    PACKED = 0
    VM = 1
    VM_TIR = 2


class ArgKind(IntEnum):
    """What the value of an argument means."""

    REGISTER = 0
    IMMEDIATE = 1
    CONSTANT = 2
    FUNCTION = 3


@dataclass(frozen=True)
class Arg:
    """One argument of a call: a register, a small integer, or an index of a constant or function."""

    kind: ArgKind
    value: int


@dataclass(frozen=True)
class Call:
    """Call a function of the table; `destination` may be :data:`VOID_REGISTER`."""

    destination: int
    function: int
    args: tuple[Arg, ...]


@dataclass(frozen=True)
class Ret:
    """Return the value of a register."""

    result: int


@dataclass(frozen=True)
class Goto:
    """Go on `offset` instructions from here."""

    offset: int


@dataclass(frozen=True)
class If:
    """Go on with the next instruction, or `false_offset` from here if the condition's register holds zero."""

    condition: int
    false_offset: int


Instruction = Call | Ret | Goto | If


def following(instruction: Instruction, at: int) -> tuple[int, ...]:
    """Return the places that an instruction at a place may go on to."""
    match instruction:
        case Ret():
            return ()
        case Goto(offset):
            return (at + offset,)
        case If(_, offset):
            return (at + 1, at + offset)
        case _:
            return (at + 1,)
