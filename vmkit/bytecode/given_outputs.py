"""Functions that write their results into memory of the caller's.

A function allocates what it returns. Where that is seen to happen, for a tensor that nothing else shares memory with,
the allocation becomes a call that asks for the caller's tensor. What a function returns in other ways, such as an
input, a constant or the result of a branch, it returns as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._dataclasses import dataclass
from .builtins import ALLOC_STORAGE, ALLOC_TENSOR, MAKE_TUPLE, RESHAPE
from .program import Arg, ArgKind, Call, Goto, If, Instruction, Program, Ret
from .rewrite import edited, with_bodies, with_packed

__all__ = ["GIVEN_OUTPUT", "with_given_outputs"]

GIVEN_OUTPUT = "vmkit.given_output"
"""What the program calls: with the position of a result, and the shape and the data type that it has."""


def with_given_outputs(program: Program, name: str) -> Program | None:
    """Return a program whose function `name` asks where to write its results; None if that cannot be seen."""
    position = next(at for at, function in enumerate(program.functions) if function.name == name)
    if any(position in called for called in program.calls().values()):
        return None
    code = program.code(program.functions[position])
    allocations = dict(_allocations(program, code))
    if not allocations:
        return None
    program, given = with_packed(program, GIVEN_OUTPUT)
    instead: dict[int, Sequence[Instruction]] = {}
    for place, allocation in allocations.items():
        old = code[allocation.at]
        assert isinstance(old, Call)
        shape_and_type = old.args[2:4]
        asked = Call(old.destination, given, (Arg(ArgKind.IMMEDIATE, place), *shape_and_type))
        instead |= {allocation.at: [asked], allocation.storage: []}
    return with_bodies(program, {position: (program.functions[position], edited(code, instead=instead))})


@dataclass(frozen=True)
class _Allocation:
    """Where a result is allocated: the instruction, and that of the storage which it alone uses."""

    at: int
    storage: int


def _allocations(program: Program, code: Sequence[Instruction]) -> Iterator[tuple[int, _Allocation]]:
    """Yield the places of results with where they are allocated."""
    end = len(code) - 1
    result = code[end]
    if not isinstance(result, Ret) or sum(isinstance(one, Ret) for one in code) > 1:
        return
    straight = _Straight(program, code)
    fields = [(result.result, end)]
    made = straight.writer(result.result, end)
    if made is not None and straight.name(made) == MAKE_TUPLE:
        call = code[made]
        assert isinstance(call, Call)
        fields = [(arg.value if arg.kind == ArgKind.REGISTER else -1, made) for arg in call.args]
    taken: set[int] = set()
    for place, (register, before) in enumerate(fields):
        found = straight.allocation(register, before)
        if found is not None and found.at not in taken:
            taken.add(found.at)
            yield place, found


class _Straight:
    """The end of a function, from where on no jump is made or arrives."""

    def __init__(self, program: Program, code: Sequence[Instruction]) -> None:
        jumps = {at: one for at, one in enumerate(code) if isinstance(one, Goto | If)}
        ends = [at + (one.offset if isinstance(one, Goto) else one.false_offset) for at, one in jumps.items()]
        self._begin = max([*jumps, *ends], default=-1) + 1
        self._code = code
        self._names = [function.name for function in program.functions]

    def name(self, at: int) -> str:
        """Return the name of the function that an instruction calls; empty for one that is no call."""
        one = self._code[at]
        return self._names[one.function] if isinstance(one, Call) else ""

    def writer(self, register: int, before: int) -> int | None:
        """Return the position of the call whose result a register has at a position; None where that is not told."""
        for at in range(before - 1, self._begin - 1, -1):
            one = self._code[at]
            if isinstance(one, Call) and one.destination == register:
                return at
        return None

    def allocation(self, register: int, before: int) -> _Allocation | None:
        """Return where the memory of a tensor is allocated, for that tensor alone."""
        at = self.writer(register, before)
        if at is None:
            return None
        call = self._code[at]
        assert isinstance(call, Call)
        source = call.args[0] if call.args else None
        if source is None or source.kind != ArgKind.REGISTER:
            return None
        if self.name(at) == RESHAPE:
            return self.allocation(source.value, at)
        storage = self.writer(source.value, at) if self.name(at) == ALLOC_TENSOR else None
        if storage is None or self.name(storage) != ALLOC_STORAGE:
            return None
        return _Allocation(at, storage) if self._reads(source.value, storage) == [at] else None

    def _reads(self, register: int, since: int) -> list[int]:
        """Return the positions where a register is read, from a write to it to the next one."""
        found = []
        for at in range(since + 1, len(self._code)):
            one = self._code[at]
            if isinstance(one, Ret) and one.result == register:
                found.append(at)
            if isinstance(one, Call):
                if any(arg == Arg(ArgKind.REGISTER, register) for arg in one.args):
                    found.append(at)
                if one.destination == register:
                    break
        return found
