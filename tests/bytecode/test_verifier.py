"""What a program must not read is found before it runs, on every path; mutated programs end in errors alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bytecode.mutant_process import ARRAYS, seed
from tests.children import tally
from vmkit.bytecode import (
    Arg,
    ArgKind,
    Call,
    FunctionKind,
    Goto,
    If,
    Instruction,
    Program,
    Ret,
    TensorConstant,
    VMFunction,
    builtins,
    verifier,
)
from vmkit.bytecode.program import VM_REGISTER, VOID_REGISTER, DTypeConstant
from vmkit.errors import ExecutableError
from vmkit.values.kernel_needs import KnownTensor

MUTANTS = "tests.bytecode.mutant_process"
PACKED = (
    "kernel",
    builtins.ALLOC_SHAPE_HEAP,
    builtins.ALLOC_STORAGE,
    builtins.ALLOC_TENSOR,
    builtins.COPY,
    builtins.MAKE_SHAPE,
    builtins.MAKE_TUPLE,
    builtins.MATCH_SHAPE,
    builtins.NULL_VALUE,
    builtins.TENSOR_TO_SHAPE,
    builtins.TUPLE_GETITEM,
)


def reg(number: int) -> Arg:
    return Arg(ArgKind.REGISTER, number)


def imm(number: int) -> Arg:
    return Arg(ArgKind.IMMEDIATE, number)


def call(name: str, *args: Arg, to: int = VOID_REGISTER) -> Call:
    return Call(to, PACKED.index(name), args)


def program(*code: Instruction) -> Program:
    """Return a program of a function of two parameters, in the registers 0 and 1, and six registers."""
    rows = [VMFunction(FunctionKind.PACKED, name, 0, 0, -2, 0, ()) for name in PACKED]
    rows.append(VMFunction(FunctionKind.VM, "main", 0, len(code), 2, 6, ("x", "y")))
    constants = ((2, 3), "text", DTypeConstant((2, 32, 1)), (3, 2), DTypeConstant((2, 64, 1)))
    tensors = (
        TensorConstant((2, 32, 1), (1, 0), (2, 3), bytes(24)),
        TensorConstant((2, 32, 1), (1, 0), (3,), bytes(12)),
        'vmkit.late_bound:{"name": "const_7", "dtype": [2, 32, 1], "shape": [4]}',
    )
    return Program("", tuple(rows), (), (*constants, *tensors, ()), code)


COPIED = call(builtins.COPY, reg(0), to=3)
FIELD = call(builtins.TUPLE_GETITEM, reg(3), imm(0), to=4)
DTYPE = Arg(ArgKind.CONSTANT, 2)
STORAGE = call(builtins.ALLOC_STORAGE, reg(VM_REGISTER), Arg(ArgKind.CONSTANT, 0), imm(0), DTYPE,
               Arg(ArgKind.CONSTANT, 1), to=3)  # fmt: skip
HEAP = call(builtins.ALLOC_SHAPE_HEAP, reg(VM_REGISTER), imm(2), to=2)


def tensor(offset: Arg) -> Call:
    return call(builtins.ALLOC_TENSOR, reg(3), offset, Arg(ArgKind.CONSTANT, 0), DTYPE, to=4)


@pytest.mark.parametrize(
    ("code", "at", "problem"),
    [
        ((call("kernel", reg(3)), Ret(0)), 0, "reads register 3, which is not set on every path"),
        ((Ret(5),), 0, "reads register 5, which is not set"),
        # One branch sets it, the other does not.
        ((If(0, 2), call(builtins.COPY, reg(0), to=3), Ret(3)), 2, "reads register 3, which is not set"),
        # Set in the first round of a loop, taken away at its end.
        (
            (COPIED, call("kernel", reg(3)), call(builtins.NULL_VALUE, to=3), If(0, 2), Goto(-3), Ret(0)),
            1,
            "reads register 3, which is not set",
        ),
        ((call("kernel", reg(0), to=3), call("kernel", reg(3)), Ret(0)), 1, "argument 0 of kernel is nothing"),
        ((call("kernel", reg(VM_REGISTER)), Ret(0)), 0, "argument 0 of kernel is the machine, expected a tensor"),
        ((call("kernel", reg(VOID_REGISTER)), Ret(0)), 0, "argument 0 of kernel is nothing, expected a tensor"),
        ((call("kernel", Arg(ArgKind.FUNCTION, 0)), Ret(0)), 0, "argument 0 of kernel is a function, expected"),
        ((call("kernel", Arg(ArgKind.CONSTANT, 1)), Ret(0)), 0, "argument 0 of kernel is a string, expected"),
        ((HEAP, call(builtins.TENSOR_TO_SHAPE, reg(2)), Ret(0)), 1, "is a shape heap, expected a tensor"),
        ((call(builtins.TENSOR_TO_SHAPE), Ret(0)), 0, "takes 1 arguments or more, 0 are given"),
        ((call(builtins.TENSOR_TO_SHAPE, reg(0), to=3), If(3, 1), Ret(0)), 1, "register 3 holds a shape, not a number"),
        ((call(builtins.ALLOC_STORAGE, reg(0)), Ret(0)), 0, "is a value, expected the machine"),
        ((HEAP, call(builtins.MAKE_SHAPE, reg(2), imm(1), imm(1), imm(2)), Ret(0)), 1, "uses place 2 of a shape heap"),
        ((HEAP, call(builtins.MAKE_SHAPE, reg(2), imm(2), imm(1), imm(1)), Ret(0)), 1, "of 2 dims has 2 arguments"),
        ((call(builtins.MAKE_SHAPE, reg(0), imm(1), imm(1), imm(0)), Ret(0)), 0, "is a value, expected a shape heap"),
        (
            (HEAP, call(builtins.MATCH_SHAPE, reg(0), reg(2), imm(1), imm(3), imm(-1)), Ret(0)),
            1,
            "uses place -1 of a shape heap of 2",
        ),
        ((call(builtins.ALLOC_STORAGE, reg(VM_REGISTER), Arg(ArgKind.CONSTANT, 8), imm(0), DTYPE,
               Arg(ArgKind.CONSTANT, 1), to=3), Ret(0)), 0, "is a shape, expected a shape of one extent or more"),
        ((call(builtins.TENSOR_TO_SHAPE, reg(0), to=3), call(builtins.ALLOC_STORAGE, reg(VM_REGISTER), reg(3), imm(0),
               DTYPE, Arg(ArgKind.CONSTANT, 1), to=3), Ret(0)), 1, "is a shape, expected a shape of one extent"),
        ((call(builtins.ALLOC_STORAGE, reg(VM_REGISTER), reg(0), imm(0), DTYPE, Arg(ArgKind.CONSTANT, 1), to=3),
          Ret(0)), 0, "is a value, expected a shape of one extent or more"),
        ((call(builtins.MAKE_SHAPE, reg(VOID_REGISTER), imm(0), to=3), Ret(3)), 0, "makes a shape of no extents"),
        ((STORAGE, tensor(imm(-1)), Ret(4)), 1, "a tensor begins at -1 in its storage, expected a multiple of 64"),
        ((STORAGE, tensor(imm(8)), Ret(4)), 1, "a tensor begins at 8 in its storage"),
        ((STORAGE, tensor(reg(0)), Ret(4)), 1, "expected a multiple of 64"),
        # Nothing does not become something on its way through a tuple or a caller.
        ((call(builtins.MAKE_TUPLE, reg(0), reg(VOID_REGISTER), to=3), Ret(3)), 0, "argument 1 of .* is nothing"),
        ((call("kernel", reg(0), to=3), call(builtins.MAKE_TUPLE, reg(3), to=4), Ret(4)), 1, "is nothing"),
        ((call(builtins.COPY, reg(VOID_REGISTER), to=3), Ret(0)), 0, "argument 0 of .* is nothing"),
        ((Ret(VOID_REGISTER),), 0, "the result is nothing"),
        ((call("kernel", reg(0), to=3), Ret(3)), 1, "the result is nothing"),
        ((Call(3, len(PACKED), (reg(0),)), Ret(3)), 0, "main takes 2 arguments, 1 are given"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(code: tuple[Instruction, ...], at: int, problem: str) -> None:
    with pytest.raises(ExecutableError, match=f"bytecode of main, instruction {at}: .*{problem}"):
        program(*code).validate()


@pytest.mark.parametrize(
    "code",
    [
        (If(0, 3), call(builtins.COPY, reg(0), to=3), Goto(2), call(builtins.COPY, reg(1), to=3), Ret(3)),
        (HEAP, call(builtins.MAKE_SHAPE, reg(2), imm(2), imm(1), imm(1), imm(0), imm(7), to=3), Ret(3)),
        (call(builtins.MAKE_SHAPE, reg(VOID_REGISTER), imm(1), imm(0), imm(7), to=3), Ret(3)),
        (STORAGE, tensor(imm(128)), Ret(4)),
        # A field of a tuple may be anything, a tensor too.
        (call(builtins.MAKE_TUPLE, reg(0), to=3), FIELD, call("kernel", reg(4)), Ret(4)),
    ],
)  # fmt: skip
def test_what_is_right_passes(code: tuple[Instruction, ...]) -> None:
    program(*code).validate()


NEEDS = {"kernel": [None, KnownTensor((2, 32, 1), (2, 3))]}
OWN = call(builtins.ALLOC_TENSOR, reg(3), imm(0), Arg(ArgKind.CONSTANT, 0), DTYPE, to=4)
MADE = call(builtins.MAKE_SHAPE, reg(VOID_REGISTER), imm(2), imm(0), imm(2), imm(0), imm(3), to=5)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ((call("kernel", reg(0), reg(1)), Ret(0)), r"argument 1 of kernel is a value, expected .* float32\[2, 3\]"),
        ((call("kernel", reg(0)), Ret(0)), "kernel takes 2 arguments or more, 1 are given"),
        (
            (STORAGE, call(builtins.ALLOC_TENSOR, reg(3), imm(0), Arg(ArgKind.CONSTANT, 3), DTYPE, to=4),
             call("kernel", reg(0), reg(4)), Ret(0)),
            r"is a tensor of float32\[3, 2\], expected",
        ),
        (
            (STORAGE, call(builtins.ALLOC_TENSOR, reg(3), imm(0), Arg(ArgKind.CONSTANT, 0), Arg(ArgKind.CONSTANT, 4),
                           to=4), call("kernel", reg(0), reg(4)), Ret(0)),
            r"is a tensor of float64\[2, 3\], expected",
        ),
        # What a shape is that is made when the program runs is not known.
        (
            (STORAGE, MADE, call(builtins.ALLOC_TENSOR, reg(3), imm(0), reg(5), DTYPE, to=4),
             call("kernel", reg(0), reg(4)), Ret(0)),
            "is a tensor, expected",
        ),
        ((call("kernel", reg(0), Arg(ArgKind.CONSTANT, 6)), Ret(0)), r"is a tensor of float32\[3\], expected"),
        ((call("kernel", reg(0), Arg(ArgKind.CONSTANT, 7)), Ret(0)), r"is a tensor of float32\[4\], expected"),
        # On one path it is another tensor.
        (
            (STORAGE, OWN, If(0, 2), call(builtins.COPY, Arg(ArgKind.CONSTANT, 6), to=4),
             call("kernel", reg(0), reg(4)), Ret(0)),
            "is a value, expected",
        ),
    ],
)  # fmt: skip
def test_a_group_is_given_the_memory_that_it_needs(code: tuple[Instruction, ...], problem: str) -> None:
    made = program(*code)
    made.validate()
    with pytest.raises(ExecutableError, match=f"bytecode of main, instruction .*{problem}"):
        made.require_needs(NEEDS)


def test_what_a_group_needs_may_be_allocated_copied_or_constant() -> None:
    copied = call(builtins.COPY, reg(4), to=5)
    for given in (reg(4), reg(5), Arg(ArgKind.CONSTANT, 5)):
        made = program(STORAGE, OWN, copied, call("kernel", reg(0), given), Ret(0))
        made.validate()
        made.require_needs(NEEDS)


@pytest.mark.parametrize(("count", "problem"), [(2, ""), (1, r"is a tensor of int64\[1\], expected .* int64\[2\]")])
def test_what_a_shape_heap_is_serves_for_as_many_integers(count: int, problem: str) -> None:
    heap = call(builtins.ALLOC_SHAPE_HEAP, reg(VM_REGISTER), imm(count), to=3)
    made = program(heap, call("kernel", reg(0), reg(3)), Ret(0))
    made.validate()
    needs = {"kernel": [None, KnownTensor((0, 64, 1), (2,))]}
    if not problem:
        return made.require_needs(needs)
    with pytest.raises(ExecutableError, match=problem):
        made.require_needs(needs)


@pytest.mark.parametrize("shape", [(-1, 2), (1 << 32, 1 << 32)])
def test_a_tensor_of_impossible_extents_is_refused(shape: tuple[int, ...]) -> None:
    made = program(STORAGE, OWN, Ret(4))
    constants = (shape, *made.constants[1:])
    with pytest.raises(ExecutableError, match="a tensor of extents"):
        replace(made, constants=constants).validate()


@pytest.mark.parametrize("dtype", [(5, 64, 1), (18, 8, 1), (200, 8, 1), (2, 0, 1), (2, 32, 0)])
def test_a_data_type_that_tvm_cannot_name_is_refused(dtype: tuple[int, int, int]) -> None:
    made = program(STORAGE, OWN, Ret(4))
    for other in (DTypeConstant(dtype), TensorConstant(dtype, (1, 0), (), bytes(64))):
        constants = (*made.constants[:2], other, *made.constants[3:])
        with pytest.raises(ExecutableError, match=r"constant 2 of the bytecode: the data type .*, which no program"):
            replace(made, constants=constants).validate()


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_the_compilers_programs_pass_and_each_instruction_counts(number: int) -> None:
    right = seed(number)[0].program
    right.validate()
    skipped = 0
    for at, instruction in enumerate(right.instructions):
        if isinstance(instruction, Call) and right.names[instruction.function] == builtins.ALLOC_TENSOR:
            without = (*right.instructions[:at], Goto(1), *right.instructions[at + 1 :])
            with pytest.raises(ExecutableError, match="is not set on every path"):
                replace(right, instructions=without).validate()
            skipped += 1
    assert skipped


def test_branches_one_after_another_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = (If(0, 3), call(builtins.COPY, reg(0), to=3), Goto(2), call(builtins.COPY, reg(1), to=3))
    code = (*(choice * 100), Ret(3))
    seen: list[Instruction] = []
    step = verifier._Following._step

    def counting(self: verifier._Following, instruction: Instruction, state: verifier._State) -> str:
        seen.append(instruction)
        return step(self, instruction, state)

    monkeypatch.setattr(verifier._Following, "_step", counting)
    program(*code).validate()
    assert len(seen) == len(code)


def test_mutated_programs_end_in_errors_alone() -> None:
    counts = tally(MUTANTS, range(300))
    assert counts["refused"] > 100 and counts["failed"] > 5


@pytest.mark.nightly
def test_many_mutated_programs_end_in_errors_alone() -> None:
    assert tally(MUTANTS, range(200, 10_000))["refused"] > 5000
