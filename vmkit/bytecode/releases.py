"""Functions that drop what they returned last before they allocate anything.

TVM's VM keeps the value that it returned until a function returns another. A result that the caller has dropped would
still take its memory while the next one is computed, which goes elsewhere then: two results take turns in the cache,
and a loop over calls needs room for one more than it uses. A function of bytecode that returns at once is such another.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .builtins import ALLOC_STORAGE, RELEASE
from .program import Arg, ArgKind, Call, FunctionKind, Program, Ret, VMFunction
from .rewrite import edited, with_bodies

__all__ = ["with_releases"]


def with_releases(program: Program, names: Collection[str]) -> Program:
    """Return a program in which the named functions drop the last result before they allocate memory."""
    called = {position for callees in program.calls().values() for position in callees}
    # One that others call would begin so in each of their calls; its own result is soon another anyway.
    chosen = [at for at, name in enumerate(program.names) if name in names and at not in called]
    found = {at: _first_allocation(program, program.functions[at]) for at in chosen}
    places = {at: place for at, place in found.items() if place is not None}
    if not places:
        return program
    release = len(program.functions)
    if RELEASE in program.names:
        release = program.names.index(RELEASE)
    else:
        end = len(program.instructions)
        row = VMFunction(FunctionKind.VM, RELEASE, end, end + 1, 1, 1, ("value",))
        program = replace(program, functions=(*program.functions, row), instructions=(*program.instructions, Ret(0)))
    bodies = {}
    for at, place in places.items():
        function = program.functions[at]
        unused = function.register_file_size
        first = Call(unused, release, (Arg(ArgKind.IMMEDIATE, 0),))
        code = edited(program.code(function), before={place: [first]})
        bodies[at] = replace(function, register_file_size=unused + 1), code
    return with_bodies(program, bodies)


def _first_allocation(program: Program, function: VMFunction) -> int | None:
    """Return where a function first allocates memory, after its checks of what it is given; None where it does not."""
    for at, instruction in enumerate(program.code(function)):
        if isinstance(instruction, Call) and program.names[instruction.function] == ALLOC_STORAGE:
            return at
    return None
