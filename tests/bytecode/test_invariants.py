"""What a loop need not do again: checks of parameters, and memory that only kernels see."""

from __future__ import annotations

from vmkit.bytecode import Arg, ArgKind, Call, FunctionKind, Instruction, Program, Ret, VMFunction
from vmkit.bytecode.invariants import first_of_loop, lasting_memory

NAMES = (
    "kernel",
    "vm.builtin.alloc_shape_heap",
    "vm.builtin.check_tensor_info",
    "vm.builtin.alloc_storage",
    "vm.builtin.alloc_tensor",
    "vm.builtin.null_value",
    "vm.builtin.copy",
)
TABLE = tuple(VMFunction(FunctionKind.PACKED, name, 0, 0, -2, 0, ()) for name in NAMES)
KERNEL, HEAP, TYPE, STORAGE, TENSOR, KILL, COPY = range(len(NAMES))
VM = Arg(ArgKind.REGISTER, (1 << 54) + 1)


def call(function: int, into: int, *registers: int) -> Call:
    return Call(into, function, tuple(Arg(ArgKind.REGISTER, r) for r in registers))


def allocated(size: int = 0) -> list[Instruction]:
    """Return the allocation of storage 1, whose bytes are a constant, and of tensor 2 in it."""
    zero = Arg(ArgKind.IMMEDIATE, 0)
    return [
        Call(1, STORAGE, (VM, Arg(ArgKind.CONSTANT, size))),
        Call(2, TENSOR, (Arg(ArgKind.REGISTER, 1), zero, Arg(ArgKind.CONSTANT, size))),
        call(KILL, 1),
    ]


def lasting(code: list[Instruction]) -> tuple[list[Call], set[int]]:
    return lasting_memory(code, Program("1", TABLE, (), ((64,), (1 << 17,)), tuple(code)))


def test_a_further_iteration_begins_after_the_checks() -> None:
    assert first_of_loop([call(HEAP, 1), call(TYPE, 2, 0), call(KERNEL, 3, 0), Ret(0)], TABLE) == 2
    assert first_of_loop([Ret(0)], TABLE) == 0


def test_memory_that_only_kernels_see_lasts() -> None:
    code = [*allocated(), call(KERNEL, 3, 0, 2), call(KILL, 2), Ret(0)]
    calls, positions = lasting(code)
    assert calls == code[:2]
    assert positions == {0, 1, 2, 4}, "and neither storage nor tensor is released"


def test_memory_that_is_passed_on_does_not_last() -> None:
    assert lasting([*allocated(), call(KERNEL, 3, 0, 2), Ret(2)]) == ([], set())
    assert lasting([*allocated(), call(COPY, 3, 2), Ret(0)]) == ([], set())


def test_large_memory_is_given_back() -> None:
    assert lasting([*allocated(1), call(KERNEL, 3, 0, 2), Ret(0)]) == ([], set())
