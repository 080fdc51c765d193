"""Tail calls of a function to itself become loops.

The VM recurses on the C stack, one frame per call. A recursive function whose last act is to call itself, which is
how Relay writes a loop, needs no frame: its arguments are moved into the parameters' registers and it starts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .blob import decode, encode
from .builtins import COPY, NULL_VALUE
from .invariants import first_of_loop, lasting_memory
from .program import VOID_REGISTER, Arg, ArgKind, Call, FunctionKind, Goto, Instruction, Program, Ret
from .rewrite import JumpTo, edited, with_bodies, with_packed

__all__ = ["tail_calls_to_loops", "with_loops"]


def tail_calls_to_loops(blob: bytes | bytearray) -> bytes:
    """Return `blob` with every call of a function to itself in tail position made a jump to its start.

    A call is in tail position if its result reaches a return through nothing but register copies, jumps and the
    release of other registers, which is what an ``If`` leaves behind. Such a loop runs in the registers of one
    frame. A blob without such calls comes back unchanged.
    """
    return encode(with_loops(decode(blob)))


def with_loops(program: Program) -> Program:
    """Return a program in which calls of functions to themselves are jumps, as :func:`tail_calls_to_loops` says."""
    for index, function in enumerate(program.functions):
        if function.kind == FunctionKind.VM:
            program = _with_loop(program, index)
    return program


def _with_loop(program: Program, index: int) -> Program:
    function = program.functions[index]
    code = program.code(function)
    names = [candidate.name for candidate in program.functions]
    calls = ((at, call) for at, call in enumerate(code) if isinstance(call, Call))
    tails = {at: call.args for at, call in calls if _is_tail(code, at, index, names)}
    if not tails:
        return program
    program, copy = with_packed(program, COPY)
    scratch = function.register_file_size
    first = first_of_loop(code, program.functions)
    once, left_out = lasting_memory(code, program) if first else ([], set())
    instead: dict[int, Sequence[Instruction | JumpTo]] = dict.fromkeys(left_out, ())
    instead |= {at: (*_moves(args, copy, scratch), JumpTo(first)) for at, args in tails.items()}
    body = edited(code, before={first: once}, instead=instead)
    return with_bodies(program, {index: (replace(function, register_file_size=scratch + 1), body)})


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
            case Call(destination, function, ()) if names[function] == NULL_VALUE and destination != held:
                at += 1
            case Call(destination, function, (Arg(ArgKind.REGISTER, source),)) if names[function] == COPY:
                if source == held:
                    held = destination
                elif destination == held:
                    return False
                at += 1
            case _:
                return False
    return False


def _moves(args: tuple[Arg, ...], copy: int, scratch: int) -> list[Call]:
    """Return the moves of `args` into registers 0, 1, ... as if at once."""
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
    return [Call(target, copy, (source,)) for target, source in moves]
