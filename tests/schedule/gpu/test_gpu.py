"""Kernels for a GPU, checked without one: every one is launched, within the limits of a block, and keeps its values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax, s_tir, te, tirx

import vmkit
from tests.relay.op.samples import SAMPLES, Given
from tests.schedule.gpu.cuda_on_cpu import cuda_source
from tests.schedule.gpu.gpu_on_cpu import TARGET, Scheduled, machine, scheduled
from vmkit import relay
from vmkit.errors import CompileError
from vmkit.schedule import gpu
from vmkit.schedule.gpu.launch import Launch, launch_problem, launches, lowered_body
from vmkit.schedule.gpu.whole import whole
from vmkit.target import canonical_target

nn = relay.nn


def conv_block(g: Given) -> Any:
    """Return a residual block: two convolutions, a normalisation after each, the input added."""
    x = g(2, 8, 9, 7, known=(1,))
    y = x
    for _ in range(2):
        norms = [g(8, known=(0,)) for _ in range(4)]
        y = nn.conv2d(y, g(8, 8, 3, 3, known=(0, 1, 2, 3)), padding=(1, 1), channels=8, kernel_size=(3, 3))
        y = nn.relu(nn.batch_norm(y, *norms)[0])
    return nn.relu(relay.add(y, x))


def attention(g: Given) -> Any:
    """Return softmax(q k^T) v of one head for each of a batch."""
    batch = tirx.Var("batch", "int64") if g.dynamic else 3
    parts = []
    for seed, length in enumerate((20, 33, 33)):
        parts.append(relay.var(f"part{seed}", shape=(batch, length, 16)))
        g.params.append(parts[-1])
        g.arrays.append(np.random.default_rng(seed).random((3, length, 16), "float32"))
    q, k, v = parts
    scores = relay.multiply(nn.batch_matmul(q, k), relay.const(0.25))
    return nn.batch_matmul(nn.softmax(scores), relay.transpose(v, (0, 2, 1)))


PROGRAMS: dict[str, Callable[[Given], Any]] = {
    "matmul": lambda g: nn.relu(nn.dense(g(37, 48, known=(1,)), g(70, 48, known=(0, 1)))),
    "one row": lambda g: nn.dense(g(1, 300, known=(0, 1)), g(70, 300, known=(0, 1))),
    "conv2d": lambda g: nn.conv2d(
        g(2, 5, 11, 13, known=(1,)), g(12, 5, 3, 3, known=(0, 1, 2, 3)), strides=(2, 2), padding=(1, 1)
    ),
    "depthwise": lambda g: nn.conv2d(
        g(2, 6, 11, 13, known=(1,)), g(6, 1, 3, 3, known=(0, 1, 2, 3)), padding=(1, 1), groups=6
    ),
    "residual block": conv_block,
    "attention": attention,
    "softmax": lambda g: nn.softmax(g(3, 5, 300)),
    "layer norm": lambda g: nn.layer_norm(g(3, 5, 96, known=(2,)), g(96, known=(0,)), g(96, known=(0,))),
    "elementwise": lambda g: relay.tanh(relay.multiply(g(3, 1, 70), g(1, 9, 70))),
    "max pool": lambda g: nn.max_pool2d(g(2, 3, 12, 14), (3, 3), (2, 2), padding=(1, 1)),
    "global average": lambda g: nn.global_avg_pool2d(g(2, 40, 7, 7)),
    "sum of all": lambda g: relay.sum(g(7, 1000)),
    "largest of all": lambda g: relay.max(g(7, 1000)),
    "position of the largest": lambda g: relay.argmax(g(7, 1000), axis=1),
    "column sums": lambda g: relay.sum(g(700, 40), axis=0),
    "gather": lambda g: relay.take(g(9, 70), g(5, dtype="int32"), axis=0),
    "running sums of columns": lambda g: relay.cumsum(g(9, 70), axis=0),
    "scatter": lambda g: relay.scatter_elements(g(9, 70), g(9, 70, dtype="int32"), g(9, 70), 0, "add"),
    "searchsorted": lambda g: relay.searchsorted(g(20, values=np.arange(20) / 20), g(300)),
    "transpose": lambda g: relay.transpose(g(3, 20, 30), (2, 0, 1)),
}
CASES = [pytest.param(name, dynamic, id=f"{name}{', dynamic' * dynamic}") for name in PROGRAMS for dynamic in (0, 1)]


def program(name: str, dynamic: bool) -> tuple[Any, list[np.ndarray]]:
    given = Given(dynamic)
    body = PROGRAMS[name](given)
    return relay.Function(given.params, body), given.arrays


@cache
def scheduled_program(name: str, dynamic: bool) -> tuple[Scheduled, Any, list[np.ndarray]]:
    function, arrays = program(name, dynamic)
    return scheduled(function), function, arrays


def launches_of(function: tirx.PrimFunc) -> list[Launch]:
    return list(launches(lowered_body(function, TARGET)))


@pytest.mark.parametrize(("name", "dynamic"), CASES)
def test_every_kernel_is_launched_on_many_threads(name: str, dynamic: bool) -> None:
    for kernel, function in scheduled_program(name, dynamic)[0].kernels.items():
        assert launch_problem(function, TARGET) is None, kernel
        assert max(launch.threads or 0 for launch in launches_of(function)) >= 16, kernel


@pytest.mark.sweep(each=3)
@pytest.mark.parametrize(("name", "dynamic"), CASES)
def test_kernels_keep_their_values(name: str, dynamic: bool) -> None:
    made, function, arrays = scheduled_program(name, dynamic)
    plain = vmkit.VirtualMachine(vmkit.compile(function, target="llvm"), "cpu").run(*arrays)
    np.testing.assert_allclose(machine(made).run(*arrays).numpy(), plain.numpy(), rtol=1e-4, atol=1e-5)


def test_a_window_is_no_work_for_many_threads_and_its_padding_no_kernel() -> None:
    (function,) = [f for name, f in scheduled_program("depthwise", False)[0].kernels.items() if "conv" in name]
    (launch,) = launches_of(function)
    # 2 images of 6 channels of 11 x 13 pixels, one a thread.
    assert launch.extents == {"blockIdx.x": -(-2 * 6 * 11 * 13 // 256), "threadIdx.x": 256}


def test_what_depends_on_what_came_before_is_done_by_one_thread() -> None:
    given = Given(False)
    (function,) = scheduled(relay.Function(given.params, relay.cumsum(given(70), axis=0))).kernels.values()
    assert [launch.extents for launch in launches_of(function)] == [{"blockIdx.x": 1, "threadIdx.x": 1}]


def test_matmul_uses_shared_memory_within_the_limit() -> None:
    (function,) = [f for name, f in scheduled_program("matmul", True)[0].kernels.items() if "dense" in name]
    (launch,) = launches_of(function)
    assert 0 < launch.shared_bytes <= 48 * 1024
    assert launch.extents["blockIdx.x"] is None  # the rows are not known


@pytest.mark.parametrize("name", ["matmul", "residual block", "attention", "scatter"])
def test_the_source_for_cuda_holds_every_kernel(name: str) -> None:
    made, function, _ = scheduled_program(name, True)
    source = cuda_source(vmkit.compile(function, target="cuda -arch=sm_80").module)
    views = {kernel for kernel, function in made.kernels.items() if relax.analysis.has_reshape_pattern(function)}
    assert len(views) == (1 if name == "residual block" else 0)
    for kernel, launched in made.kernels.items():
        if kernel in views:  # a vector that is given axes of length 1: its memory as it is
            continue
        assert source.count(f"{kernel}_kernel") >= len(launches_of(launched)), kernel
    assert "blockIdx.x" in source and "threadIdx.x" in source


@pytest.mark.parametrize("shape", [None, {"Input3": ("n", 1, 28, 28)}], ids=["static", "dynamic"])
def test_an_onnx_model_compiles_for_cuda(shape: Any) -> None:
    model = onnx.load_from_string((resources.files("vmkit") / "data" / "mnist.onnx").read_bytes())
    executable = vmkit.compile(model, target="cuda -arch=sm_80", shapes=shape)
    assert cuda_source(executable.module).count("__global__ void") >= 5
    assert executable.device_kind == "cuda"


def test_normalisations_are_folded_into_convolutions() -> None:
    given = Given(False)
    x = given(1, 8, 9, 9)
    weight = relay.const(np.ones((8, 8, 3, 3), "float32"))
    norms = [relay.const(np.full(8, 0.5, "float32")) for _ in range(4)]
    y = nn.batch_norm(nn.conv2d(x, weight, padding=(1, 1)), *norms)[0]
    (name,) = [each for each in scheduled(relay.Function(given.params, y)).kernels if "conv" in each]
    assert "multiply" not in name


def test_tvms_own_threaded_kernels_stay() -> None:
    given = Given(False)
    made = scheduled(relay.Function(given.params, relay.argsort(given(5, 40))))
    assert any(len(launches_of(function)) > 1 for function in made.kernels.values())


@pytest.mark.parametrize("kind", ["metal", "opencl", "webgpu"])
def test_other_gpus_have_their_own_limits(kind: str) -> None:
    target = canonical_target(kind).primary
    for name in ("matmul", "scatter"):
        for function in scheduled(program(name, True)[0], target).kernels.values():
            for launch in launches(lowered_body(function, target)):
                assert launch.threads is not None and launch.threads <= int(target.attrs["max_num_threads"])
                assert launch.shared_bytes <= int(target.attrs["max_shared_memory_per_block"])


def test_a_kernel_made_for_a_cpu_is_refused() -> None:
    given = Given(False)
    function = relay.Function(given.params, SAMPLES["nn.contrib_attention"](given))
    with pytest.raises(CompileError, match="the kernel attention was not made for cuda: it reads or writes the device"):
        vmkit.compile(function, target="cuda -arch=sm_80")


def bound(threads: int, kept: int, scope: str) -> tirx.PrimFunc:
    """Return a copy of 4096 numbers by blocks of threads, each block or thread of which keeps some for itself."""
    x = te.placeholder((4096,), name="x")
    schedule = s_tir.Schedule(te.create_prim_func([x, te.compute((4096,), lambda i: x[i] + 1, name="y")]))
    block = schedule.get_sblock("y")
    outer, inner = schedule.split(schedule.get_loops(block)[0], [None, max(threads, kept)])
    if threads:
        cached = schedule.cache_read(block, 0, scope)
        schedule.compute_at(cached, outer)
        schedule.bind(outer, "blockIdx.x")
        lane = schedule.split(inner, [threads, None])[0]
        schedule.bind(lane, "threadIdx.x")
    return schedule.mod["main"]


def test_the_limits_of_a_block_are_checked() -> None:
    small = tvm.target.Target({"kind": "cuda", "arch": "sm_80", "max_shared_memory_per_block": 1000})
    assert launch_problem(bound(64, 256, "shared"), TARGET) is None
    assert launch_problem(bound(64, 256, "shared"), small) == (
        "a block takes 1024 bytes of shared memory; the target has 1000"
    )
    assert launch_problem(bound(2048, 0, "local"), TARGET) == "a block has 2048 threads; the target has at most 1024"
    outside = "it reads or writes the device's memory outside of its threads"
    assert launch_problem(bound(0, 16, ""), TARGET) == outside


def test_memory_of_unknown_size_is_refused() -> None:
    n = tirx.Var("n", "int64")
    x = te.placeholder((8, n), name="x")
    y = te.compute((8, n), lambda i, j: x[i, j] + 1, name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, te.compute((8, n), lambda i, j: y[i, j] * 2, name="z")]))
    rows = schedule.get_loops(schedule.get_sblock("z"))[0]
    schedule.compute_at(schedule.get_sblock("y"), rows)
    schedule.set_scope(schedule.get_sblock("y"), 0, "local")
    schedule.bind(rows, "threadIdx.x")
    problem = launch_problem(schedule.mod["main"], TARGET)
    assert problem == "the size of y_local, which threads keep, is not known when it is compiled"


def test_a_rule_that_trips_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def trips(function: tirx.PrimFunc, target: tvm.target.Target) -> None:
        raise AssertionError("not for this one")

    monkeypatch.setattr(gpu, "RULES", (whole("trips", trips), *gpu.RULES))
    function, _ = program("softmax", False)
    assert all(launch_problem(f, TARGET) is None for f in scheduled(function).kernels.values())
    monkeypatch.setattr(gpu, "RULES", gpu.RULES[:1])
    with pytest.raises(CompileError, match="the kernel nn_softmax cannot be launched on cuda: trips: not for this one"):
        scheduled(function)


# What is for CPUs or names another device.
ELSEWHERE = {
    "nn.contrib_attention",
    "nn.contrib_block_quantized_product",
    "nn.contrib_conv2d_winograd_fused",
    "nn.contrib_gru",
    "nn.contrib_inverted_residual",
    "nn.contrib_lstm",
    "nn.contrib_packed_gemm",
    "nn.contrib_rnn",
    "on_device",
    "device_copy",
}


@pytest.mark.nightly
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", sorted(set(SAMPLES) - ELSEWHERE))
def test_every_operator_compiles_for_cuda(name: str, dynamic: bool) -> None:
    given = Given(dynamic)
    body = SAMPLES[name](given)
    function = relay.Function(given.params, body.astuple() if hasattr(body, "astuple") else body)
    kernels = [f for f in scheduled(function).kernels.values() if not f.attrs.get("tirx.is_host_func")]
    assert all(launch_problem(f, TARGET) is None for f in kernels)
    assert vmkit.compile(function, target="cuda -arch=sm_80").device_kind == "cuda"
