"""Vectors of integers that only kernels see are allocated at once; all other tensors stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.bytecode import Arg, ArgKind, Call, FunctionKind, Instruction, Program, Ret, VMFunction
from vmkit.bytecode.integer_tensors import with_integer_tensors
from vmkit.bytecode.program import DTypeConstant

NAMES = ("kernel", "vm.builtin.alloc_storage", "vm.builtin.alloc_tensor", "vm.builtin.null_value", "vm.builtin.copy")
KERNEL, STORAGE, TENSOR, KILL, COPY = range(len(NAMES))
VM, ZERO = Arg(ArgKind.REGISTER, (1 << 54) + 1), Arg(ArgKind.IMMEDIATE, 0)
SHAPES = ((3,), (3, 1), (200,), (24,), (1600,))
INT64, INT32 = len(SHAPES), len(SHAPES) + 1


def call(function: int, into: int, *registers: int) -> Call:
    return Call(into, function, tuple(Arg(ArgKind.REGISTER, r) for r in registers))


def program(shape: int, dtype: int, *code: Instruction) -> Program:
    """Return a program that allocates register 2, of a shape among SHAPES, in storage that is register 1."""
    size = 4 if shape == 2 else 3
    rows = [VMFunction(FunctionKind.PACKED, name, 0, 0, -2, 0, ()) for name in NAMES]
    allocated = (
        Call(1, STORAGE, (VM, Arg(ArgKind.CONSTANT, size))),
        Call(2, TENSOR, (Arg(ArgKind.REGISTER, 1), ZERO, Arg(ArgKind.CONSTANT, shape), Arg(ArgKind.CONSTANT, dtype))),
        call(KILL, 1),
    )
    rows.append(VMFunction(FunctionKind.VM, "main", 0, 3 + len(code), 1, 5, ("x",)))
    types = (DTypeConstant((0, 64, 1)), DTypeConstant((0, 32, 1)))
    return Program("", tuple(rows), (), (*SHAPES, *types), (*allocated, *code))


def test_a_vector_of_integers_for_kernels_is_one_instruction() -> None:
    made = with_integer_tensors(program(0, INT64, call(KERNEL, 3, 0, 2), call(KILL, 2), Ret(0)))
    first, *others = made.instructions
    assert isinstance(first, Call)
    assert (made.names[first.function], first.destination) == ("vm.builtin.alloc_shape_heap", 2)
    assert first.args == (VM, Arg(ArgKind.IMMEDIATE, 3))
    assert others == [call(KERNEL, 3, 0, 2), call(KILL, 2), Ret(0)]


@pytest.mark.parametrize(
    ("shape", "dtype", "code"),
    [
        (0, INT32, (call(KERNEL, 3, 0, 2), Ret(0))),
        (1, INT64, (call(KERNEL, 3, 0, 2), Ret(0))),
        (2, INT64, (call(KERNEL, 3, 0, 2), Ret(0))),
        (0, INT64, (call(KERNEL, 3, 0, 2), Ret(2))),
        (0, INT64, (call(COPY, 3, 2), call(KERNEL, 4, 0, 3), Ret(3))),
    ],
    ids=["of other numbers", "a matrix", "large", "a result", "kept"],
)
def test_another_tensor_stays(shape: int, dtype: int, code: tuple[Instruction, ...]) -> None:
    made = program(shape, dtype, *code)
    assert with_integer_tensors(made) is made


def test_what_kernels_find_is_in_such_vectors() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    executable = vmkit.compile(relay.Function([x], relay.argwhere(x)), "llvm")
    assert executable.bytecode.count("alloc_shape_heap") > 1
    machine = vmkit.VirtualMachine(executable, "cpu")
    for data in ([3, 0, 3, 2], [0] * 9, [1]):
        values = np.array(data, "float32")
        np.testing.assert_array_equal(machine.run(values).numpy(), np.argwhere(values))
