"""Which groups ask whether to go on, and after what."""

from __future__ import annotations

import pytest
import tvm
from tvm import ir, relax, tirx

from vmkit import relay
from vmkit.compiler.vm_compiler import VMCompiler
from vmkit.relax.kernel_groups.functions import KernelCall, KernelGroup, group_function
from vmkit.relax.kernel_groups.looks import FEW_BYTES, bytes_used, is_long, look_part, run_state
from vmkit.relax.kernel_groups.parts import as_part
from vmkit.values.kernel_needs import RUN_STATE, STATE

from .test_functions import names

KERNEL = ir.GlobalVar("kernel")
ROWS = tirx.Var("rows", "int64")


def call(*shape: int | tirx.Expr) -> KernelCall:
    return KernelCall(KERNEL, (relax.Var("x", relax.TensorType(list(shape), "float32")),), ())


def group(*calls: KernelCall) -> KernelGroup:
    state = run_state() if is_long([call.used for call in calls]) else None
    tensors = [*(one for call in calls for one in call.tensors), *([] if state is None else [state])]
    position = {tensor: at for at, tensor in enumerate(tensors)}
    made, zero = frozenset(tensors), tirx.IntImm("int64", 0)
    return KernelGroup(ir.GlobalVar("group"), calls, tuple(tensors), made, position, {}, zero, state)


def test_a_call_counts_for_the_bytes_of_its_tensors_and_a_few_more() -> None:
    assert int(call(3, 5).used) == 64 + 60
    assert int(bytes_used([])) == 64


@pytest.mark.parametrize(
    ("calls", "looks"),
    [
        ([call(FEW_BYTES // 8)] * 3, [1]),  # two halves and a little more
        ([call(1000)] * 3, []),
        ([call(FEW_BYTES), call(10), call(FEW_BYTES)], [0, 2]),
        ([call(ROWS, 4), call(10)], [0]),
    ],
)
def test_a_group_looks_once_it_has_used_many_bytes_or_unknown_ones(calls: list[KernelCall], looks: list[int]) -> None:
    made = group(*calls)
    assert [need == STATE for need in made.needs] == [tensor is made.state for tensor in made.tensors]
    found = [name.removeprefix("vmkit.part:") for name in names(group_function(made, {KERNEL: "kernel"}, "look"))]
    wanted = [name for at in range(len(calls)) for name in ["kernel", *(["look"] if at in looks else [])]]
    assert found == wanted


def test_where_threads_and_time_are_not_known_signals_are_looked_for_each_time() -> None:
    signals = ["TVMFFIEnvCheckSignals", "TVMFFIErrorSetRaised"]
    assert names(look_part("linux")) == ["pthread_self", "clock_gettime", *signals]
    assert names(look_part("darwin")) == signals
    assert str(as_part(look_part("")).attrs["vmkit.part"]) == "bn"


def test_the_state_of_a_program_is_one_constant_that_a_machine_finds() -> None:
    x = relay.var("x", shape=(1024, 1024))
    compiler = VMCompiler()
    compiler.lower(tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, x)))), "llvm")
    compiler.codegen()
    program = compiler.get_exec().program
    assert [bytes(getattr(c, "data", b"")) for c in program.constants].count(RUN_STATE) == 1
