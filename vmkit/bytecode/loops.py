"""Tail calls of a function to itself become loops.

The VM recurses on the C stack, one frame per call. A recursive function whose last act is to call itself, which is
how Relay writes a loop, needs no frame: its arguments are moved into the parameters' registers and it starts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .blob import decode, encode
from .invariants import first_of_loop, lasting_memory
from .program import VOID_REGISTER, Arg, ArgKind, Call, FunctionKind, Goto, If, Instruction, Program, Ret, VMFunction

__all__ = ["tail_calls_to_loops"]

_COPY = "vm.builtin.copy"
_KILL = "vm.builtin.null_value"

_Step = tuple[Instruction, int | None]
"""An instruction and, for a jump, the old position inside the function that it goes to."""


def tail_calls_to_loops(blob: bytes | bytearray) -> bytes:
    """Return `blob` with every call of a function to itself in tail position made a jump to its start.

    A call is in tail position if its result reaches a return through nothing but register copies, jumps and the
    release of other registers, which is what an ``If`` leaves behind. Such a loop runs in the registers of one
    frame. A blob without such calls comes back unchanged.
    """
    program = decode(blob)
    for index, function in enumerate(program.functions):
        if function.kind == FunctionKind.VM:
            program = _with_loop(program, index)
    return encode(program)


def _with_loop(program: Program, index: int) -> Program:
    function = program.functions[index]
    code = program.instructions[function.start : function.end]
    names = [candidate.name for candidate in program.functions]
    tails = {at for at in range(len(code)) if _is_tail(code, at, index, names)}
    if not tails:
        return program
    if _COPY not in names:
        copy_row = VMFunction(FunctionKind.PACKED, _COPY, 0, 0, -2, 0, ())
        program = replace(program, functions=(*program.functions, copy_row))
        names.append(_COPY)
    scratch = function.register_file_size
    first = first_of_loop(code, program.functions)
    once, left_out = lasting_memory(code, program) if first else ([], set())
    groups = [
        _jump_to_start(instruction.args, names.index(_COPY), scratch, first)
        if at in tails and isinstance(instruction, Call)
        else [(instruction, _target(instruction, at))]
        for at, instruction in enumerate(code)
    ]
    for at in left_out:
        groups[at] = []
    if once:
        groups[first - 1] += [(call, None) for call in once]
    return _replace_code(program, index, _lay_out(groups), scratch + 1)


def _is_tail(code: Sequence[Instruction], at: int, index: int, names: Sequence[str]) -> bool:
    """Follow the result of the call at `at` and tell whether it is returned with nothing done in between."""
    call = code[at]
    if not isinstance(call, Call) or call.function != index or call.destination == VOID_REGISTER:
        return False
    held, at = call.destination, at + 1
    for _ in range(len(code)):
        match code[at]:
            case Ret(result):
                return result == held
            case Goto(offset):
                at += offset
            case Call(destination, function, ()) if names[function] == _KILL and destination != held:
                at += 1
            case Call(destination, function, (Arg(ArgKind.REGISTER, source),)) if names[function] == _COPY:
                if source == held:
                    held = destination
                elif destination == held:
                    return False
                at += 1
            case _:
                return False
    return False


def _jump_to_start(args: tuple[Arg, ...], copy: int, scratch: int, first: int) -> list[_Step]:
    """Return the moves of `args` into registers 0, 1, ... as if at once, and the jump back to position `first`."""
    waiting = {target: arg for target, arg in enumerate(args) if arg != Arg(ArgKind.REGISTER, target)}
    moves: list[tuple[int, Arg]] = []
    while waiting:
        read = {arg.value for arg in waiting.values() if arg.kind == ArgKind.REGISTER}
        free = [target for target in waiting if target not in read]
        if free:
            moves.append((free[0], waiting.pop(free[0])))
            continue
        # Only cycles are left: save one register, so that it may be overwritten.
        saved = next(iter(waiting))
        moves.append((scratch, Arg(ArgKind.REGISTER, saved)))
        waiting = {
            target: Arg(ArgKind.REGISTER, scratch) if arg == Arg(ArgKind.REGISTER, saved) else arg
            for target, arg in waiting.items()
        }
    return [*((Call(target, copy, (source,)), None) for target, source in moves), (Goto(0), first)]


def _target(instruction: Instruction, at: int) -> int | None:
    match instruction:
        case Goto(offset) | If(_, offset):
            return at + offset
        case _:
            return None


def _lay_out(groups: list[list[_Step]]) -> list[Instruction]:
    """Put the groups, one per old instruction, one after another and set the jumps' offsets anew."""
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + len(group))
    code: list[Instruction] = []
    for instruction, target in (step for group in groups for step in group):
        match instruction:
            case Goto() if target is not None:
                code.append(Goto(starts[target] - len(code)))
            case If(condition) if target is not None:
                code.append(If(condition, starts[target] - len(code)))
            case _:
                code.append(instruction)
    return code


def _replace_code(program: Program, index: int, code: list[Instruction], registers: int) -> Program:
    old = program.functions[index]
    grown = len(code) - (old.end - old.start)

    def moved(function: VMFunction) -> VMFunction:
        if function is old:
            return replace(old, end=old.end + grown, register_file_size=registers)
        if function.kind == FunctionKind.VM and function.start >= old.end:
            return replace(function, start=function.start + grown, end=function.end + grown)
        return function

    instructions = (*program.instructions[: old.start], *code, *program.instructions[old.end :])
    return replace(program, functions=tuple(map(moved, program.functions)), instructions=instructions)
