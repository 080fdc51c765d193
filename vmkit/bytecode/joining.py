"""Programs of several devices joined to one: the first calls functions of the others by names.

Each was compiled for one device, which is the first of its machine. Joined, it allocates on the device that it has in
the machine of all of them, and the constants, which TVM's VM keeps on the first device, are copied to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .._dataclasses import dataclass
from .builtins import ALLOC_STORAGE, TO_DEVICE
from .program import (
    Arg,
    ArgKind,
    Call,
    FunctionKind,
    Instruction,
    Program,
    TensorConstant,
    VMFunction,
)
from .rewrite import edited, with_bodies, with_packed

__all__ = ["Part", "joined_programs", "with_devices"]

_DEVICE_INDEX = 2  # among the arguments of that


@dataclass(frozen=True)
class Part:
    """A program whose ``main`` another one calls.

    Attributes
    ----------
    name : str
        What it is called.
    program : Program
        Its code.
    index : int
        Which device of the machine it runs on.
    device : (int, int)
        The number of that device's type, and which one of the type it is.
    """

    name: str
    program: Program
    index: int
    device: tuple[int, int]


def joined_programs(first: Program, parts: Sequence[Part]) -> Program:
    """Return a program with the functions of parts in the places of the packed functions of their names."""
    joined = first
    for part in parts:
        joined = _with_part(joined, part)
    return joined


def _with_part(whole: Program, part: Part) -> Program:
    program = _moved(part)
    table = {function.name: index for index, function in enumerate(whole.functions)}
    functions = list(whole.functions)
    places: dict[int, int] = {}
    for index, function in enumerate(program.functions):
        name = function.name
        if function.kind == FunctionKind.VM:
            name = part.name if name == "main" else f"{part.name}.{name}"
        if function.kind != FunctionKind.PACKED or name not in table:
            row = replace(function, name=name)
            if name in table:
                functions[table[name]] = row
            else:
                table[name] = len(functions)
                functions.append(row)
        places[index] = table[name]
    start, first_constant = len(whole.instructions), len(whole.constants)
    for index, function in enumerate(program.functions):
        if function.kind == FunctionKind.VM:
            row = functions[places[index]]
            functions[places[index]] = replace(row, start=function.start + start, end=function.end + start)
    scopes = [(index + first_constant, scope) for index, scope in program.memory_scopes]
    code = [_relocated(each, places, first_constant) for each in program.instructions]
    return replace(
        whole,
        functions=tuple(functions),
        memory_scopes=(*whole.memory_scopes, *scopes),
        constants=(*whole.constants, *program.constants),
        instructions=(*whole.instructions, *code),
    )


def _relocated(instruction: Instruction, functions: Mapping[int, int], constants: int) -> Instruction:
    if not isinstance(instruction, Call):
        return instruction

    def other(arg: Arg) -> Arg:
        match arg.kind:
            case ArgKind.FUNCTION:
                return Arg(arg.kind, functions[arg.value])
            case ArgKind.CONSTANT:
                return Arg(arg.kind, arg.value + constants)
        return arg

    return Call(instruction.destination, functions[instruction.function], tuple(map(other, instruction.args)))


def _moved(part: Part) -> Program:
    """Return the program of a part as it is on its own device of a machine of several."""
    program, to_device = with_packed(part.program, TO_DEVICE)
    names = [function.name for function in program.functions]
    bodies: dict[int, tuple[VMFunction, Sequence[Instruction]]] = {}
    for at, function in enumerate(program.functions):
        if function.kind != FunctionKind.VM:
            continue
        taken: dict[int, int] = {}
        code: list[Instruction] = []
        for instruction in program.code(function):
            if isinstance(instruction, Call):
                instruction = _on_device(instruction, names[instruction.function], part.index)
                instruction = _with_copies(instruction, program, taken, function.register_file_size)
            code.append(instruction)
        where = tuple(Arg(ArgKind.IMMEDIATE, number) for number in part.device)
        copies = [
            Call(register, to_device, (Arg(ArgKind.CONSTANT, constant), *where)) for constant, register in taken.items()
        ]
        row = replace(function, register_file_size=function.register_file_size + len(taken))
        bodies[at] = (row, edited(code, before={0: copies}))
    return with_bodies(program, bodies)


def _on_device(call: Call, name: str, index: int) -> Call:
    """Return a call that, where it allocates, does so on a device of the machine."""
    if name != ALLOC_STORAGE:
        return call
    args = list(call.args)
    args[_DEVICE_INDEX] = Arg(ArgKind.IMMEDIATE, index)
    return replace(call, args=tuple(args))


def _with_copies(call: Call, program: Program, taken: dict[int, int], first: int) -> Call:
    """Return a call that takes tensors from registers instead of constants; `taken` says which from which."""

    def copied(arg: Arg) -> Arg:
        if arg.kind != ArgKind.CONSTANT or not isinstance(program.constants[arg.value], TensorConstant):
            return arg
        return Arg(ArgKind.REGISTER, taken.setdefault(arg.value, first + len(taken)))

    return replace(call, args=tuple(map(copied, call.args)))


def with_devices(program: Program, devices: Mapping[tuple[int, int], tuple[int, int]]) -> Program:
    """Return a program that copies to other devices than it was compiled for; those are not of other types."""
    calls = {index for index, function in enumerate(program.functions) if function.name == TO_DEVICE}

    def other(instruction: Instruction) -> Instruction:
        if not isinstance(instruction, Call) or instruction.function not in calls:
            return instruction
        value, kind, number = instruction.args
        to = devices.get((kind.value, number.value), (kind.value, number.value))
        return replace(instruction, args=(value, *(Arg(ArgKind.IMMEDIATE, part) for part in to)))

    return replace(program, instructions=tuple(map(other, program.instructions)))
