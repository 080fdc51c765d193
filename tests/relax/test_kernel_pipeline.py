"""Kernels are lowered by the passes that have something to do, and by all of TVM's where those may."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import s_tir, tirx
from tvm.ir.instrument import pass_instrument
from tvm.script import tirx as T

from vmkit.relax.kernel_pipeline import PIPELINE

FOR_GPUS = {"s_tir.ThreadSync", "s_tir.InjectVirtualThread", "s_tir.InjectSoftwarePipeline", "s_tir.LowerMatchBuffer"}


@pass_instrument
class Names:
    """Notes the passes that run."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def run_before_pass(self, _mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        self.seen.append(str(info.name))


@T.prim_func(s_tir=True)
def twice(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):  # type: ignore[no-untyped-def, valid-type]
    for i in range(64):
        with T.sblock("twice"):
            v = T.axis.spatial(64, i)
            y[v] = x[v] + x[v]


def scheduled(change: Callable[[s_tir.Schedule, s_tir.SBlockRV], None]) -> tirx.PrimFunc:
    """Return the kernel after a change of its schedule."""
    schedule = s_tir.Schedule(twice)
    change(schedule, schedule.get_sblock("twice"))
    return schedule.mod["main"]


def vectors(schedule: s_tir.Schedule, block: s_tir.SBlockRV) -> None:
    outer, inner = schedule.split(schedule.get_loops(block)[0], [None, 16])
    schedule.parallel(outer)
    schedule.vectorize(inner)


def copied_first(schedule: s_tir.Schedule, block: s_tir.SBlockRV) -> None:
    outer, _ = schedule.split(schedule.get_loops(block)[0], [None, 16])
    schedule.compute_at(schedule.cache_read(block, 0, "local"), outer)


def unrolled_by_pragma(schedule: s_tir.Schedule, block: s_tir.SBlockRV) -> None:
    schedule.annotate(schedule.get_loops(block)[0], "pragma_auto_unroll_max_step", 64)


def copied_to_shared(schedule: s_tir.Schedule, block: s_tir.SBlockRV) -> None:
    schedule.cache_read(block, 0, "shared")


def annotated(schedule: s_tir.Schedule, block: s_tir.SBlockRV) -> None:
    schedule.annotate(block, "double_buffer_scope", 0)


@T.prim_func(s_tir=True)
def part_in_place(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):  # type: ignore[no-untyped-def, valid-type]
    for i in range(8):
        with T.sblock("part"):
            v = T.axis.spatial(8, i)
            T.reads(x[v * 8 : v * 8 + 8])
            T.writes(y[v * 8 : v * 8 + 8])
            some = T.match_buffer(x[v * 8 : v * 8 + 8], (8,), offset_factor=8)
            for j in range(8):
                y[v * 8 + j] = some[j] * T.float32(2)


@pytest.mark.parametrize(
    ("kernel", "is_short"),
    [
        (scheduled(vectors), True),
        (scheduled(copied_first), True),
        (scheduled(unrolled_by_pragma), False),
        (scheduled(copied_to_shared), False),
        (scheduled(annotated), False),
        (part_in_place, False),
    ],
    ids=["vectors", "copied first", "pragma", "shared", "annotated", "part in place"],
)
def test_passes_for_gpus_run_where_there_may_be_work(kernel: tirx.PrimFunc, is_short: bool) -> None:
    names = Names()
    with tvm.transform.PassContext(instruments=[names]):
        built = tvm.compile(tvm.IRModule({"main": kernel}), "llvm", tir_pipeline=PIPELINE)
    assert FOR_GPUS & set(names.seen) == (set() if is_short else FOR_GPUS)
    assert "tirx.MakePackedAPI" in names.seen
    x = np.random.default_rng(0).standard_normal(64).astype("float32")
    result = tvm.runtime.tensor(np.zeros(64, "float32"))
    built["main"](tvm.runtime.tensor(x), result)
    np.testing.assert_array_equal(result.numpy(), x + x)


def test_memory_of_a_block_is_as_large_as_what_is_there_at_a_time() -> None:
    built = tvm.tirx.build(tvm.IRModule({"main": scheduled(copied_first)}), "llvm", PIPELINE)
    assert "TVMBackendAllocWorkspace" not in built.inspect_source("ll")
    assert "[64 x float]" not in built.inspect_source("ll")


def test_options_of_tvm_are_heeded() -> None:
    """A pipeline that TVM puts together by its options is TVM's."""
    names = Names()
    with tvm.transform.PassContext(instruments=[names], config={"tirx.disable_cse_tir": True}):
        tvm.tirx.build(tvm.IRModule({"main": scheduled(vectors)}), "llvm", PIPELINE)
    assert "tirx.CommonSubexprElim" not in names.seen
