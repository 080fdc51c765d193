"""The check at the start of every recursive function: where it stands, and on which threads it fails."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.relax import programs as vm_programs
from vmkit import bytecode
from vmkit.bytecode import Call, FunctionKind
from vmkit.runtime.stack_guard import guard_this_thread, guarded
from vmkit.stack import DeepThread

CPU = tvm.cpu()


@pytest.fixture(scope="module")
def module() -> tvm.runtime.Module:
    return vm_programs.compiled(vm_programs.Triangle)


@pytest.fixture(scope="module")
def program(module: tvm.runtime.Module) -> bytecode.Program:
    return bytecode.decode(vm_programs.code_of(module))


def run(module: tvm.runtime.Module, program: bytecode.Program, levels: int) -> int:
    vm = vm_programs.link(bytecode.encode(program), module)["vm_load_executable"]()
    vm["vm_initialization"](CPU.dlpack_device_type(), CPU.index, 2)
    return int(vm["main"](tvm.runtime.tensor(np.int32(levels))).numpy())


def test_recursive_functions_begin_with_the_check(program: bytecode.Program) -> None:
    changed = guarded(program)
    changed.validate()
    recursive = program.recursive_functions()
    assert recursive and len(changed.instructions) == len(program.instructions) + len(recursive)
    for index, (before, after) in enumerate(zip(program.functions, changed.functions, strict=False)):
        if before.kind != FunctionKind.VM:
            assert after == before
            continue
        body = list(changed.instructions[after.start : after.end])
        if index in recursive:
            check = body.pop(0)
            assert isinstance(check, Call) and changed.functions[check.function].name == "vmkit.stack_guard"
        assert body == list(program.instructions[before.start : before.end])


def test_a_program_without_recursion_has_none() -> None:
    plain = bytecode.decode(vm_programs.code_of(vm_programs.compiled(vm_programs.add_rows()[0])))
    assert guarded(plain).instructions == plain.instructions


def test_on_a_thread_that_announced_its_stack_it_fails(module: tvm.runtime.Module, program: bytecode.Program) -> None:
    thread = DeepThread(32 << 20)
    thread.call(guard_this_thread, thread.stack_bytes)
    changed = guarded(program)
    assert thread.call(run, module, changed, 100) == 5050
    with pytest.raises(RuntimeError, match="the recursion is too deep for a stack of 32 MiB; does it end"):
        thread.call(run, module, changed, 10_000_000)
    assert thread.call(run, module, changed, 100) == 5050


def test_on_other_threads_nothing_is_checked(module: tvm.runtime.Module, program: bytecode.Program) -> None:
    assert run(module, guarded(program), 100) == 5050
    assert tvm_ffi.get_global_func("vmkit.stack_guard")() is None
