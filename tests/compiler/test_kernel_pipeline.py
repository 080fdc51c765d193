"""Kernels that rules schedule, or that are written out, skip passes for what is not in them; those of users do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.ir.instrument import pass_instrument
from tvm.script import tirx as T

import vmkit
from vmkit import relay
from vmkit.compiler.kernel_pipeline import PIPELINE
from vmkit.kernels.packed_gemm import packed_gemm
from vmkit.kernels.packed_gemm_plan import PackedGemmPlan, PackedGemmShape

COMPACT, NO_OP, SHARED = "s_tir.CompactBufferAllocation", "tirx.RemoveNoOp", "tirx.CommonSubexprElim"


def passes_of(compile_it: Callable[[], object], config: Mapping[str, object] | None = None) -> set[str]:
    """Return the names of the passes that run meanwhile."""
    names: set[str] = set()

    @pass_instrument
    class Noted:
        def run_before_pass(self, _module: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
            names.add(info.name)

    with vmkit.PassContext(instruments=[Noted()], config=config):
        compile_it()
    return names


def written() -> tvm.IRModule:
    """Return a product of any number of rows that is written out."""
    shape = PackedGemmShape(lead=(None,), inner=8, outer=8, block=8, lanes=4, has_bias=False)
    return tvm.IRModule({"main": packed_gemm(shape, PackedGemmPlan(2, 1, 2, 0)).with_attr("global_symbol", "main")})


def of_a_user() -> tvm.IRModule:
    """Return a kernel with a loop over threads that are none, which a pass of TVM's has to write out."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):  # type: ignore[no-untyped-def, valid-type]
        T.func_attr({"global_symbol": "main", "tirx.is_scheduled": True})
        for thread in T.thread_binding(2, thread="vthread"):
            for i in T.serial(4):
                y[thread * 4 + i] = x[thread * 4 + i] * T.float32(2)

    return tvm.IRModule({"main": main})


def scheduled() -> relay.Function:
    """Return what a rule schedules: a sum over rows of any number."""
    x = relay.var("x", shape=(relay.Any(), 12))
    return relay.Function([x], relay.nn.softmax(x))


def test_what_is_written_out_skips_passes_for_blocks() -> None:
    ran = passes_of(lambda: tvm.tirx.build(written(), "llvm", PIPELINE))
    assert {"tirx.VectorizeLoop", "tirx.FlattenBuffer"} <= ran
    assert not ran & {COMPACT, NO_OP, SHARED}


def test_what_a_rule_schedules_skips_passes_for_threads() -> None:
    ran = passes_of(lambda: vmkit.compile(scheduled(), "llvm"))
    assert {COMPACT, NO_OP} <= ran
    assert not ran & {SHARED, "s_tir.InjectVirtualThread"}


def test_what_stands_before_all_loops_is_not_compacted() -> None:
    # A window of 10 steps, 5 apart, that is copied element by element: hundreds of accesses to what is padded.
    builder = relax.BlockBuilder()
    types = relax.TensorType([tirx.Var("n", "int64"), 2, 203], "float32"), relax.TensorType([8, 2, 10], "float32")
    rows, weight = (relax.Var(name, ty) for name, ty in zip(("rows", "weight"), types, strict=True))
    with builder.function("main", [rows, weight]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.conv1d(rows, weight, strides=5, padding=2))
        builder.emit_func_output(result)
    made: list[vmkit.Executable] = []
    assert COMPACT not in passes_of(lambda: made.append(vmkit.compile(builder.get(), "llvm")))
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 2, 203)).astype("float32"), rng.standard_normal((8, 2, 10)).astype("float32")
    padded = np.pad(x, [(0, 0), (0, 0), (2, 2)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 10, axis=2)[:, :, ::5]
    out = vmkit.VirtualMachine(made[0], "cpu").run(x, w).numpy()
    np.testing.assert_allclose(out, np.einsum("ncpk,ock->nop", windows, w), rtol=1e-4, atol=1e-5)


def test_kernels_of_users_go_through_all_passes() -> None:
    ran = passes_of(lambda: tvm.tirx.build(of_a_user(), "llvm", PIPELINE))
    assert {COMPACT, NO_OP, SHARED, "s_tir.InjectVirtualThread"} <= ran


def test_kernels_of_all_kinds_are_built_in_one_module() -> None:
    rows = written()["main"].with_attr("global_symbol", "rows")
    kernels = tvm.IRModule({**dict(of_a_user().functions.items()), "rows": rows})
    built = tvm.tirx.build(kernels, "llvm", PIPELINE)
    x, weight = (np.random.default_rng(seed).standard_normal(n).astype("float32") for seed, n in ((0, 24), (1, 64)))
    data, product = x.reshape(3, 8), tvm.runtime.tensor(np.zeros((3, 8), "float32"))
    built["rows"](tvm.runtime.tensor(data), tvm.runtime.tensor(weight.reshape(1, 8, 8)), product)
    np.testing.assert_allclose(product.numpy(), data @ weight.reshape(8, 8), rtol=1e-4, atol=1e-5)
    twice = tvm.runtime.tensor(np.zeros(8, "float32"))
    built["main"](tvm.runtime.tensor(data[0].copy()), twice)
    np.testing.assert_array_equal(twice.numpy(), 2 * data[0])


@pytest.mark.parametrize(
    ("option", "name", "runs"),
    [
        ("tirx.disable_storage_rewrite", "tirx.StorageRewrite", False),
        ("tirx.instrument_bound_checkers", "s_tir.InstrumentBoundCheckers", True),
        ("tirx.instrument_lwp", "s_tir.InstrumentProfileIntrinsics", True),
    ],
)
def test_options_of_passes_hold_for_all_kernels(option: str, name: str, runs: bool) -> None:
    for make in (lambda: tvm.tirx.build(written(), "llvm", PIPELINE), lambda: vmkit.compile(scheduled(), "llvm")):
        assert (name in passes_of(make, {option: True})) == runs
        assert (name in passes_of(make)) != runs
