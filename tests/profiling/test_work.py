"""Operations of kernels are counted in their loops; names tell the operators."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T

import vmkit
from vmkit import relay
from vmkit.profiling import Report, VirtualMachineProfiler
from vmkit.profiling.operators import operators_in
from vmkit.profiling.work import operations


@T.prim_func(s_tir=True)
def product(a: T.Buffer((4, 8), "float32"), b: T.Buffer((6, 8), "float32"), c: T.Buffer((4, 6), "float32")):
    for i, j, k in T.grid(4, 6, 8):
        with T.sblock("c"):
            v, w, r = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[v, w] = T.float32(0)
            c[v, w] = c[v, w] + a[v, r] * T.exp(b[w, r])


@T.prim_func(s_tir=True)
def triangle(x: T.handle, y: T.handle):
    n = T.int64()
    a = T.match_buffer(x, (n,), "float32")
    b = T.match_buffer(y, (n,), "float32")
    for i in range(n):
        for j in range(T.min(i + T.int64(1), T.int64(3))):
            if i % T.int64(2) == T.int64(0):
                b[i] = T.max(a[i], T.float32(0)) * T.Cast("float32", j)


@T.prim_func(s_tir=True)
def by_data(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        if x[i] > 2:
            y[i] = y[i] + T.float32(1)


def test_a_product_is_counted_with_what_else_is_computed() -> None:
    assert operations(product, [(4, 8), (6, 8), (4, 6)]) == 4 * 6 * 8 * 3


def test_bounds_and_branches_are_gone_through() -> None:
    inner = [min(i + 1, 3) for i in range(7) if i % 2 == 0]
    assert operations(triangle, [(7,), (7,)]) == 2 * sum(inner)
    assert operations(triangle, [(0,), (0,)]) == 0


def test_what_depends_on_data_is_not_known() -> None:
    assert operations(by_data, [(4,), (4,)]) is None
    assert operations(product, [(4, 8)]) is None


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("fused_nn_conv2d1_add1_nn_relu3", "nn.conv2d + add + nn.relu"),
        ("log2", "log2"),
        ("log21", "log2"),
        ("packed_gemm14", "packed_gemm"),
        ("fused_layout_transform1_reshape_tensor", "layout_transform + reshape_tensor"),
        ("VM::AllocStorage", "VM::AllocStorage"),
    ],
)
def test_names_tell_the_operators(name: str, operators: str) -> None:
    assert operators_in(name) == operators


@pytest.fixture(scope="module")
def report() -> Report:
    weight = np.random.default_rng(0).random((64, 32), dtype="float32")
    x = relay.var("x", shape=(relay.Any(), 32))
    once = relay.nn.relu(relay.nn.dense(x, relay.const(weight)))
    exe = vmkit.compile(relay.Function([x], relay.tanh(relay.nn.softmax(once))), target="llvm -mcpu=x86-64-v3")
    return VirtualMachineProfiler(exe).profile(np.ones((48, 32), "float32"))


def test_rows_have_operations_rates_and_bytes(report: Report) -> None:
    (dense,) = (row for row in report.calls if "dense" in row["Name"] or "gemm" in row["Name"])
    nominal = 48 * 64 * 32 * 2
    assert nominal <= dense["Operations"] <= nominal * 1.1
    assert dense["GFLOP/s"] == pytest.approx(dense["Operations"] / dense["Duration (us)"] / 1000)
    assert dense["Bytes"] == 4 * (48 * 32 + 64 * 32 + 48 * 64)
    assert not any("Operations" in row for row in report.calls if row["Name"].startswith("VM::"))
    header, *_ = report.csv().splitlines()
    assert header.endswith("Operations,Bytes,GFLOP/s")
    again = Report.from_json(report.json())
    assert again.calls == report.calls


def test_sums_by_operator_have_their_own_rate(report: Report) -> None:
    twice = Report([*report.calls, *report.calls], report.device_metrics, report.configuration)
    columns = ["Name", "Count", "Operations", "GFLOP/s", "Bytes"]
    lines = [line.split("  ") for line in twice.table(columns=columns, by_operator=True).splitlines()]
    (dense,) = ([each.strip() for each in line if each] for line in lines if "dense" in line[0] or "gemm" in line[0])
    (single,) = (row for row in report.calls if "dense" in row["Name"] or "gemm" in row["Name"])
    assert dense[1:] == ["2", str(2 * single["Operations"]), f"{single['GFLOP/s']:.2f}", str(2 * single["Bytes"])]


def test_instructions_that_are_not_known_are_not_counted() -> None:
    instruction = T.call_llvm_pure_intrin("float32x8", "llvm.x86.avx.rcp.ps.256", tirx.Broadcast(T.float32(1), 8))
    kernel = tirx.PrimFunc([], tirx.Evaluate(instruction))
    assert operations(kernel, []) is None
    fused = T.call_llvm_pure_intrin("float32x8", "llvm.fma", *(tirx.Broadcast(T.float32(1), 8) for _ in range(3)))
    assert operations(tirx.PrimFunc([], tirx.Evaluate(fused)), []) == 16
