"""Tail calls become loops that give the same values."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.bytecode.compiled import PROGRAMS
from tests.relax import programs as vm_programs
from vmkit import bytecode


def run(module: tvm.runtime.Module, *args: int) -> int:
    vm = relax.VirtualMachine(module, tvm.cpu())
    return int(vm["main"](*(tvm.runtime.tensor(np.array(arg, "int32")) for arg in args)).numpy())


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("sum", (0, 7), 7),
        ("sum", (10, 0), 55),
        ("swap", (0, 5, 2), 3),
        ("swap", (1, 5, 2), -3),
        ("swap", (1001, 5, 2), -3),
        ("nested", (9, 1), 41),
    ],
)
def test_tail_calls_to_loops_keeps_values(name: str, args: tuple[int, ...], expected: int) -> None:
    module = vm_programs.compiled(PROGRAMS[name]())
    code = vm_programs.code_of(module)
    looped = bytecode.tail_calls_to_loops(code)
    bytecode.decode(looped).validate()
    assert "invoke main" in bytecode.disassemble(bytecode.decode(code))
    assert "invoke main" not in bytecode.disassemble(bytecode.decode(looped)), "no call to itself is left"
    assert run(module, *args) == expected
    assert run(vm_programs.link(looped, module), *args) == expected


def test_a_million_iterations_run_in_one_frame() -> None:
    module = vm_programs.compiled(vm_programs.Sum)
    looped = vm_programs.link(bytecode.tail_calls_to_loops(vm_programs.code_of(module)), module)
    expected = np.int64(1_000_000 * 1_000_001 // 2).astype("int32")
    assert run(looped, 1_000_000, 0) == expected


@pytest.mark.parametrize("name", ["triangle", "add_rows", "constant_add"])
def test_programs_without_tail_calls_are_unchanged(name: str) -> None:
    code = vm_programs.code_of(vm_programs.compiled(PROGRAMS[name]()))
    assert bytecode.tail_calls_to_loops(code) == code


def test_a_loop_leaves_functions_after_it_intact() -> None:
    mod = tvm.IRModule({**vm_programs.Sum.functions})
    builder = relax.BlockBuilder(mod)
    x = relax.Var("x", relax.TensorType((), "int32"))
    with builder.function("zebra", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    module = vm_programs.compiled(builder.get())
    looped = vm_programs.link(bytecode.tail_calls_to_loops(vm_programs.code_of(module)), module)
    vm = relax.VirtualMachine(looped, tvm.cpu())
    assert int(vm["zebra"](tvm.runtime.tensor(np.array(21, "int32"))).numpy()) == 42
    assert run(looped, 3, 0) == 6
