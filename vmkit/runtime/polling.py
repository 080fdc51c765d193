"""Where a running program can be stopped: a look at a flag in every iteration and at every level of a recursion.

The flag is a constant of the program, a tensor of one element, which the VM's own ``read_if_cond`` reads: that takes no
lock and some tens of nanoseconds. Only where it is set is a function of vmkit called, which says whether to go on.

Long kernel groups, and loops that became one call of the VM (``kernel_loop``), look by themselves, at a state of their
own; see :mod:`vmkit.values.kernel_needs`. They are stopped on whatever thread they run, and so is a loop which calls
such a group whatever way it goes: it needs no flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..bytecode import Arg, ArgKind, Call, FunctionKind, Goto, If, Instruction, Program, Ret, TensorConstant, VMFunction
from ..bytecode.builtins import COPY, READ_IF_COND
from ..bytecode.instructions import following
from ..bytecode.known_tensors import is_run_state
from ..bytecode.program import VOID_REGISTER
from ..bytecode.rewrite import JumpTo, edited, with_bodies, with_packed
from ..values.kernel_needs import POLL

__all__ = ["FLAG", "POLL", "STATE", "can_run_on", "polled", "with_run_state"]

FLAG = "vmkit.flag"
"""The function of a program of :func:`polled` that returns its flag."""

STATE = "vmkit.run_state"
"""The function of a program of :func:`with_run_state` that returns the state which its kernel groups look at."""


def can_run_on(program: Program) -> bool:
    """Tell whether a program may run for any time without a look: by recursion, or loops that call no long group."""
    if program.recursive_functions():
        return True
    bodies = (program.code(f) for f in program.functions if f.kind == FunctionKind.VM)
    return any(
        _can_return(code, at, program)
        for code in bodies
        for at, one in enumerate(code)
        if isinstance(one, Goto) and one.offset <= 0
    )


def _can_return(code: Sequence[Instruction], jump: int, program: Program) -> bool:
    """Tell whether a jump back can be reached again from where it leads without a group that looks by itself."""
    ahead, seen = [jump], set[int]()
    while ahead:
        at = ahead.pop()
        for place in following(code[at], at):
            if place == jump:
                return True
            if place not in seen and not _looks(code[place], program):
                seen.add(place)
                ahead.append(place)
    return False


def _looks(one: Instruction, program: Program) -> bool:
    """Tell whether an instruction is the call of a kernel group that looks at the machine's state."""
    if not isinstance(one, Call) or not _is_kernel(one, program):
        return False
    return any(is_run_state(program, arg) for arg in one.args)


def _is_kernel(one: Call, program: Program) -> bool:
    callee = program.functions[one.function]
    return callee.kind == FunctionKind.PACKED and "." not in callee.name


def polled(program: Program, *, kernels: bool) -> Program:
    """Return a program that looks at its flag before it jumps back, and where a recursive function begins.

    Parameters
    ----------
    kernels
        Whether it does before each kernel, too.
    """
    recursive = program.recursive_functions()
    program, read = with_packed(program, READ_IF_COND)
    program, copy = with_packed(program, COPY)
    program, poll = with_packed(program, POLL)
    flag = Arg(ArgKind.CONSTANT, len(program.constants))
    constant = TensorConstant((1, 8, 1), (1, 0), (), bytes(1))
    program = replace(program, constants=(*program.constants, constant))
    bodies: dict[int, tuple[VMFunction, Sequence[Instruction]]] = {}
    for at, function in enumerate(program.functions):
        if function.kind != FunctionKind.VM:
            continue
        register, code = function.register_file_size, program.code(function)
        look = (Call(register, read, (flag,)), If(register, 2), Call(VOID_REGISTER, poll, ()))
        places = {i for i, one in enumerate(code) if _is_place(one, program, kernels)}
        instead = {i: [*look, _kept(code[i], i)] for i in places}
        changed = edited(code, instead=instead, before={0: look} if at in recursive else None)
        if len(changed) > len(code):
            bodies[at] = (replace(function, register_file_size=register + 1), changed)
    return _giving(with_bodies(program, bodies), FLAG, copy, flag)


def with_run_state(program: Program) -> Program:
    """Return a program whose kernel groups have one state, which the program gives; without one, as it is."""
    positions = range(len(program.constants))
    is_state = [is_run_state(program, Arg(ArgKind.CONSTANT, at)) for at in positions]
    if not any(is_state):
        return program
    first = Arg(ArgKind.CONSTANT, is_state.index(True))

    def shared(one: Instruction) -> Instruction:
        if not isinstance(one, Call):
            return one
        args = (first if a.kind == ArgKind.CONSTANT and is_state[a.value] else a for a in one.args)
        return replace(one, args=tuple(args))

    program, copy = with_packed(program, COPY)
    program = replace(program, instructions=tuple(map(shared, program.instructions)))
    return _giving(program, STATE, copy, first)


def _is_place(one: Instruction, program: Program, kernels: bool) -> bool:
    if isinstance(one, Goto):
        return one.offset <= 0
    return kernels and isinstance(one, Call) and _is_kernel(one, program)


def _kept(one: Instruction, at: int) -> Instruction | JumpTo:
    return JumpTo(at + one.offset) if isinstance(one, Goto) else one


def _giving(program: Program, name: str, copy: int, constant: Arg) -> Program:
    """Return a program with a function that returns a constant."""
    code = (Call(0, copy, (constant,)), Ret(0))
    start = len(program.instructions)
    row = VMFunction(FunctionKind.VM, name, start, start + len(code), 0, 1, ())
    return replace(program, functions=(*program.functions, row), instructions=(*program.instructions, *code))
